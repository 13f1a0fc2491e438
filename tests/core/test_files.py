"""Files are replaced whole or not at all."""

import ast
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core import files
from harness.core.errors import BadFile
from harness.core.files import (
    DISK,
    append_text,
    held,
    make_private,
    remove,
    replacing,
    replacing_folder,
    sweep,
    write_text,
)
from harness.core.records import Document
from harness_engines import registry
from tests.make.damage import killed as in_a_process
from tests.make.damage import little_room
from tests.source import Module, known

# Files are replaced whole or not at all


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed(path: Path) -> None:
    path.write_text("half")
    raise KeyboardInterrupt


@pytest.mark.parametrize("writing", [replacing, replacing_folder])
def test_a_full_disk_names_the_file_that_was_written(
    tmp_path: Path, writing: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    path = tmp_path / "file"
    with pytest.raises(OSError, match="No space left") as caught, writing(path):
        Path("/dev/full").write_text("a failed write names no file")
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("call", ["unlink", "rmdir"])
def test_a_removal_that_a_signal_breaks_off_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    honest = getattr(os, call)
    broken_off: list[Path] = []

    def once(path: Path) -> None:
        if not broken_off:
            broken_off.append(path)
            raise InterruptedError
        honest(path)

    monkeypatch.setattr(os, call, once)
    write_text(tmp_path / "file", "whole")
    assert broken_off
    assert names(tmp_path) == {"file"}


def test_a_folder_is_replaced_and_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")
    with replacing_folder(path) as beside:
        (beside / "new").write_text("new")
        assert names(path) == {"old"}
    assert names(path) == {"new"}
    assert names(tmp_path) == {"folder"}


@pytest.mark.parametrize("whole", [True, False], ids=["in one step", "in two"])
def test_a_reader_of_a_folder_that_is_replaced_finds_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    path = tmp_path / "folder"
    seen: list[bool] = []
    in_one_step = files.swapped

    def swapped(one: Path, other: Path) -> bool:
        done = whole and in_one_step(one, other)
        seen.append((other / "new").is_file())
        return done

    with replacing_folder(path) as beside:
        (beside / "old").write_text("old")
    monkeypatch.setattr(files, "swapped", swapped)
    with replacing_folder(path) as beside:
        (beside / "new").write_text("new")
    assert seen == [whole]
    assert names(path) == {"new"}
    assert names(tmp_path) == {"folder"}


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    in_a_process(f"""
        from harness.core.files import replacing, replacing_folder
        with replacing(Path({str(tmp_path / "file")!r})) as beside:
            beside.write_text("half")
            with replacing_folder(Path({str(tmp_path / "folder")!r})) as beside:
                (beside / "half").write_text("half")
                os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert len(names(tmp_path)) == 2
    write_text(tmp_path / "other", "whole")
    assert names(tmp_path) == {"other"}


@pytest.mark.parametrize(
    "name", [".mine.partial", ".cafe.partial", ".proj.1.partial", f".{'a' * 16}.partial"]
)
def test_what_somebody_else_named_alike_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("of somebody else")
    (tmp_path / "folder" / name).mkdir(parents=True)
    (tmp_path / "folder" / name / "thesis.tex").write_text("of somebody else")
    for folder in (tmp_path, tmp_path / "folder"):
        write_text(folder / "other", "whole")
        assert names(folder) >= {name, "other"}
    assert names(tmp_path / "folder" / name) == {"thesis.tex"}


def test_what_a_living_process_writes_is_not_swept(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as beside, replacing_folder(tmp_path / "folder") as inner:
        beside.write_text("whole")
        (inner / "in").write_text("whole")
        sweep(tmp_path)
        write_text(tmp_path / "other", "whole")
    assert names(tmp_path) == {"file", "folder", "other"}


def test_a_folder_that_was_killed_between_two_steps_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with replacing_folder(path) as beside:
        (beside / "old").write_text("old")
    in_a_process(f"""
        from harness.core import files
        files.swapped = lambda one, other: False
        moved = Path.replace
        def replace(self, target):
            moved(self, target)
            os.kill(os.getpid(), signal.SIGKILL)
        Path.replace = replace
        with files.replacing_folder(Path({str(path)!r})) as beside:
            (beside / "new").write_text("new")
    """)
    assert not path.exists()
    write_text(tmp_path / "other", "whole")
    assert names(path) == {"old"}
    assert names(tmp_path) == {"folder", "other"}


class Synced(NamedTuple):
    """What was waited for, in order: names of files and folders."""

    names: list[str]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    found = Synced([])
    wait = os.fsync

    def fsync(opened: int) -> None:
        found.names.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_what_is_durable_is_on_the_disk_before_its_name_and_the_name_too(
    tmp_path: Path, synced: Synced
) -> None:
    write_text(tmp_path / "new" / "file", "whole", durable=True)
    assert synced.names == [tmp_path.name, "file", "new"]
    synced.names.clear()
    with replacing_folder(tmp_path / "folder", durable=True) as beside:
        (beside / "in").mkdir()
        (beside / "in" / "file").write_text("whole")
    assert synced.names == ["folder", "file", "in", tmp_path.name]
    synced.names.clear()
    append_text(tmp_path / "log", "one\n")
    assert synced.names == ["log", tmp_path.name]
    synced.names.clear()
    remove(tmp_path / "log")
    assert synced.names == [tmp_path.name]
    synced.names.clear()
    write_text(tmp_path / "cache", "whole")
    assert synced.names == []


def test_a_new_cache_is_closed_to_others(tmp_path: Path) -> None:
    write_text(tmp_path / "mine" / ".cache" / "index" / "text", "private")
    assert stat.S_IMODE((tmp_path / "mine" / ".cache").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    make_private(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


# What a disk refuses names its file, whichever library was told

REFUSED = "No space|too large|Input/output"
ROOM = 8_000
"""Bytes that a file may have: a library is refused as by a full disk."""


@pytest.fixture
def full() -> Iterator[None]:
    with little_room(ROOM):
        yield


def by_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE text (text)")
        db.execute("INSERT INTO text VALUES (zeroblob(100000))")
        db.commit()


WRITERS: dict[str, Callable[[Path], object]] = {
    "python": lambda path: path.write_bytes(bytes(100_000)),
    "sqlite": by_sqlite,
    "numpy": lambda path: np.save(path, np.zeros(100_000)),
    "pyarrow": lambda path: pq.write_table(pa.table({"a": np.random.rand(100_000)}), path),  # noqa: NPY002  any
}


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_for_which_there_is_no_room_is_named(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "file"
    path.write_text("as it was")
    with pytest.raises(OSError, match=REFUSED) as told, replacing(path) as beside:
        WRITERS[writer](beside)
    assert told.value.errno in DISK
    assert told.value.filename == str(path)
    assert path.read_text() == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def documents() -> list[Document]:
    return [Document(f"d{at}", "salt", f"water {at} boat " * 400, {}) for at in range(60)]


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("arm", ["fts5", "tantivy", "hash-hybrid", "mail-fts5", "code-sqlite"])
def test_an_index_for_which_there_is_no_room_is_named(tmp_path: Path, arm: str) -> None:
    engine = registry.load(arm, tmp_path / "cache")
    index = tmp_path / "index"
    with pytest.raises(OSError, match=REFUSED) as told, replacing_folder(index) as folder:
        engine.build(documents(), folder)
    assert told.value.errno in DISK
    assert told.value.filename == str(index)
    assert not index.exists()


# An unresolvable path is refused before anything is made of it

Open = Callable[[Path], AbstractContextManager[Any]]


@pytest.mark.parametrize("opened", [held, replacing, replacing_folder])
def test_nothing_is_made_on_the_way_to_nowhere(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "file")
    for path, says in (
        (tmp_path / "new" / ".." / "file", "cannot resolve '..': .*new is not a directory"),
        (tmp_path / "link", "is a link to nothing"),
    ):
        with pytest.raises(BadFile, match=says), opened(path):
            pass
    assert [one.name for one in tmp_path.iterdir()] == ["link"]


# What a stranger may have written is read by the one reader with bounds, and by nothing else

PARSERS = {
    ("json", "load"), ("json", "loads"), ("tomllib", "load"), ("tomllib", "loads"),
    ("yaml", "safe_load"), ("yaml", "load"), ("gzip", "open"), ("pickle", "load"),
    ("pickle", "loads"), ("marshal", "loads"), ("csv", "reader"), ("csv", "DictReader"),
    ("pq", "ParquetFile"), ("pq", "read_table"), ("pq", "read_metadata"),
}  # fmt: skip
READS = {"read_text", "read_bytes"}
READERS = {"harness/core/reading.py", "harness/core/formats.py", "harness/core/files.py",
           "harness/corpus/runs.py"}  # fmt: skip
OURS = {
    "harness/report/html.py": "templates of this package",
    "harness/report/explorer.py": "templates of this package",
    "harness/serve/application.py": "templates of this package",
    "harness/serve/shelf.py": "files of the reports that it serves",
    "harness/pipeline/init.py": "templates of this package",
    "harness/pipeline/template/engine.py": "a sample, which its owner changes",
    "harness/replay/machine.py": "files of the kernel",
    "engines/harness_engines/stacks/keeper.py": "commands of its parent, and logs of servers",
    "engines/harness_engines/stacks/postgres.py": "files of the server that it started",
    "engines/harness_engines/stacks/code/reading/documents.py": "text of a document",
    "harness/core/mcp_pipes.py": "the id of a request, in a line within a bound",
    "harness/core/batches.py": "work of the process that started it",
    "harness/shadow/worker.py": "questions of the process that started it",
    "harness/check/answers.py": "questions and answers between two processes of ours",
    "engines/harness_engines/stacks/documents/library.py": "an index that the stack wrote",
    "engines/harness_engines/stacks/documents/pdf.py": "texts of the process that it started",
    "engines/harness_engines/stacks/agent_mail/sqlite/store.py": "rows that the stack wrote",
}
"""What reads without bounds, and why it may."""


def unbounded(module: Module) -> list[str]:
    """Name the calls that read without a bound, by their lines."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            whose = node.value.id if isinstance(node.value, ast.Name) else ""
            if (whose, node.attr) in PARSERS or node.attr in READS:
                found.append(f"{module.file}:{node.lineno}: {whose}.{node.attr}")
    return found


@pytest.mark.slow
def test_nothing_else_reads_what_a_stranger_may_have_written() -> None:
    outside = [module for module in known().values() if module.file not in READERS | OURS.keys()]
    assert len(outside) > 150
    assert [call for module in outside for call in unbounded(module)] == []


MODELS = {
    "harness/core/mcp_pipes.py": "a line within a bound, as the SDK is about to read it",
    "harness/report/decision.py": "a decision, written as JSON once more",
    "harness/migrate/ledger.py": "an entry of what was read, written as JSON once more",
    "harness/shadow/http.py": "settings of an arm, written as JSON once more",
}
"""Where pydantic reads JSON that was not checked, and why it may: of two equal keys it takes one,
and it knows no bound of depth or digits."""


def called(module: Module) -> set[str]:
    """Name what a module calls, without what it is called of."""
    calls = [node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    return {
        name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "") for name in calls
    }


TIMES = {
    "harness/core/formats.py": "the reader of times",
    "harness/policy/age.py": "says in words of its own what lacks",
    "engines/harness_engines/stacks/agent_mail/mcp_tools/arguments.py": "a client's filter",
}
"""Where a time is read in another way, and why."""
