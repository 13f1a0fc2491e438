"""Files are replaced whole or not at all."""

import ast
import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path, PurePath
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core import files, folders
from harness.core.errors import HarnessError, Locked
from harness.core.records import Document
from harness_engines import registry
from tests.make.damage import killed, little_room, started
from tests.source import Module, known


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("writing", [files.replacing, files.replacing_folder])
def test_a_full_disk_names_the_file_that_was_written(
    tmp_path: Path, writing: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    path = tmp_path / "file"
    with pytest.raises(OSError, match="No space left") as caught, writing(path):
        Path("/dev/full").write_text("a failed write names no file")
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("whole", [True, False], ids=["in one step", "in two"])
def test_a_reader_of_a_folder_that_is_replaced_finds_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    path, in_one_step, seen = tmp_path / "folder", files.swapped, list[bool]()

    def swapped(one: Path, other: Path) -> bool:
        done = whole and in_one_step(one, other)
        seen.append((other / "new").is_file())
        return done

    monkeypatch.setattr(files, "swapped", swapped)
    for name in ("old", "new"):
        with files.replacing_folder(path) as beside:
            (beside / name).write_text(name)
    assert seen[-1] == whole
    assert (names(path), names(tmp_path)) == ({"new"}, {"folder"})


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    killed(f"""
        from harness.core.files import replacing, replacing_folder
        with replacing(Path({str(tmp_path / "file")!r})) as beside:
            beside.write_text("half")
            with replacing_folder(Path({str(tmp_path / "folder")!r})) as beside:
                (beside / "half").write_text("half")
                os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert len(names(tmp_path)) == 2
    files.write_text(tmp_path / "other", "whole")
    assert names(tmp_path) == {"other"}


def test_what_a_living_process_writes_is_not_swept(tmp_path: Path) -> None:
    with (
        files.replacing(tmp_path / "file") as beside,
        files.replacing_folder(tmp_path / "folder") as inner,
    ):
        beside.write_text("whole")
        (inner / "in").write_text("whole")
        files.sweep(tmp_path)
        files.write_text(tmp_path / "other", "whole")
    assert names(tmp_path) == {"file", "folder", "other"}


def test_what_another_machine_writes_over_nfs_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS shares the locks of files, and not those of folders."""
    lock = fcntl.flock

    def shared(opened: int, how: int) -> None:
        if stat.S_ISREG(os.fstat(opened).st_mode):
            lock(opened, how)

    monkeypatch.setattr(fcntl, "flock", shared)
    with files.replacing(tmp_path / "file") as beside:
        beside.write_text("whole")
        files.sweep(tmp_path)
    assert names(tmp_path) == {"file"}


def test_a_disk_without_locks_is_named_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)))
    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(OSError, match="No locks available"):
        files.write_text(tmp_path / "file", "whole")
    assert names(tmp_path) == set()


def test_a_folder_that_was_killed_between_two_steps_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with files.replacing_folder(path) as beside:
        (beside / "old").write_text("old")
    killed(f"""
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
    files.write_text(tmp_path / "other", "whole")
    assert names(path) == {"old"}
    assert names(tmp_path) == {"folder", "other"}


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List what was waited for, in order: names of files and folders."""
    found: list[str] = []
    wait = os.fsync

    def fsync(opened: int) -> None:
        found.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_the_journal_is_on_the_disk_before_the_first_file_and_each_file_before_the_end(
    tmp_path: Path, synced: list[str]
) -> None:
    """A power cut after the first file must find the journal, by its name."""
    with folders.changing(tmp_path / "thing", within=[tmp_path], what="set") as made:
        made.write(tmp_path / "thing", "new")
    assert synced == [".thing.journal", tmp_path.name, "thing", tmp_path.name, tmp_path.name]


def test_what_is_durable_is_on_the_disk_before_its_name_and_the_name_too(
    tmp_path: Path, synced: list[str]
) -> None:
    def waited() -> list[str]:
        found = synced.copy()
        synced.clear()
        return found

    files.write_text(tmp_path / "new" / "file", "whole", durable=True)
    assert waited() == [tmp_path.name, "file", "new"]
    with files.replacing_folder(tmp_path / "folder", durable=True) as beside:
        (beside / "in").mkdir()
        (beside / "in" / "file").write_text("whole")
    assert waited() == ["folder", "file", "in", tmp_path.name]
    files.append_text(tmp_path / "log", "one\n")
    assert waited() == ["log", tmp_path.name]
    files.remove(tmp_path / "log")
    assert waited() == [tmp_path.name]
    files.write_text(tmp_path / "cache", "whole")
    assert waited() == []


def test_a_new_cache_is_closed_to_others(tmp_path: Path) -> None:
    files.write_text(tmp_path / "mine" / ".cache" / "index" / "text", "private")
    assert stat.S_IMODE((tmp_path / "mine" / ".cache").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    files.make_private(tmp_path / "open")
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
    with pytest.raises(OSError, match=REFUSED) as told, files.replacing(path) as beside:
        WRITERS[writer](beside)
    assert told.value.errno in files.DISK
    assert told.value.filename == str(path)
    assert path.read_text() == "as it was"
    assert names(tmp_path) == {"file"}


def test_a_disk_that_refused_is_found_behind_what_came_of_it() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    for chained in (ValueError("broken"), KeyError("lost")):
        chained.__cause__ = full
        assert files.refusal(chained) is full
    assert files.refusal(ValueError("broken")) is None


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("arm", ["fts5", "tantivy", "hash-hybrid", "mail-fts5", "code-sqlite"])
def test_an_index_for_which_there_is_no_room_is_named(tmp_path: Path, arm: str) -> None:
    engine, index = registry.load(arm, tmp_path / "cache"), tmp_path / "index"
    many = [Document(f"d{at}", "salt", f"water {at} boat " * 400, {}) for at in range(60)]
    with pytest.raises(OSError, match=REFUSED) as told, files.replacing_folder(index) as folder:
        engine.build(many, folder)
    assert told.value.errno in files.DISK
    assert told.value.filename == str(index)
    assert not index.exists()


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
    "harness/corpus/exchange.py": "lines within a bound",
    "harness/logs/querylog.py": "lines within a bound",
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


# Locks, owned folders, temporary folders, and strays


def test_what_is_read_and_written_by_many_processes_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    adding = [
        started(f"""
            from harness.core.files import held
            path = Path({str(path)!r})
            for number in range(20):
                with held(path):
                    text = path.read_text()
                    time.sleep(0.0005)
                    path.write_text(f"{{text}}{{number}}\\n")
        """)
        for _ in range(3)
    ]
    for process in adding:
        process.communicate()
        assert process.returncode == 0
    assert sorted(map(int, path.read_text().split())) == sorted([*range(20)] * 3)
    assert names(tmp_path) == {"file"}


def test_a_living_process_does_not_and_is_named_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    process = started(f"""
        from harness.core.files import held
        with held(Path({str(path)!r})):
            print("held", flush=True)
            sys.stdin.read()
    """)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    with pytest.raises(Locked, match="another process writes"), files.held(path, patience_s=0):
        pass
    process.communicate()
    with files.held(path, patience_s=5):
        pass


@pytest.mark.parametrize("name", ["new", "empty", "deep/er"])
def test_a_new_an_empty_and_a_marked_folder_are_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".index.html.lock").touch()
    folder = tmp_path / name
    folders.claim(folder, folders.RUN, project="mine")
    (folder / "index.html").write_text("ours")
    folders.claim(folder, folders.RUN)
    folders.check_held(folder, folders.RUN)
    said = folders.mark(folder, folders.RUN).read_text()
    assert said.startswith("harness run in the project mine made this folder")
    found = {name for name in names(folder) if not name.endswith(".lock")}
    assert found == {"harness-run.txt", "index.html"}


def test_what_somebody_else_has_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "my docs"
    folder.mkdir()
    (folder / "index.html").write_text("mine")
    wrong = "holds what harness run did not write, for example index.html. Name a new or empty"
    with pytest.raises(folders.NotOurs, match=wrong) as refused:
        folders.claim(folder, folders.RUN)
    command = str(refused.value).partition("set its mark: ")[2]
    assert command == f"touch '{folder}/harness-run.txt'"
    assert names(folder) == {"index.html"}
    with pytest.raises(folders.NotOurs, match="bears no mark of harness run"):
        folders.check_held(folder, folders.RUN)
    folders.mark(folder, folders.RUN).touch()
    folders.claim(folder, folders.RUN)
    folders.check_held(folder, folders.RUN)


def test_a_folder_of_another_command_is_named_as_its(tmp_path: Path) -> None:
    folders.claim(tmp_path, folders.RUN)
    with pytest.raises(folders.NotOurs, match="belongs to harness run"):
        folders.claim(tmp_path, folders.SHADOW_REPORT)
    assert [path.name for path in tmp_path.iterdir()] == ["harness-run.txt"]


@pytest.mark.parametrize("to", ["data", "data/out", "data/qrels/out", ".", "data/../data", "link"])
def test_a_place_that_is_or_touches_what_is_read_is_refused(tmp_path: Path, to: str) -> None:
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/qrels")
    with pytest.raises(folders.NotOurs, match="which is read"):
        folders.claim(tmp_path / to, folders.RUN, reads=[tmp_path / "data"])
    assert not list(tmp_path.rglob("*.txt"))


def test_beside_what_is_read_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "policy.toml").write_text("x")
    folders.claim(
        tmp_path / "data-out", folders.RUN, reads=[tmp_path / "data", tmp_path / "policy.toml"]
    )
    with pytest.raises(folders.NotOurs, match=r"policy\.toml, which is read"):
        folders.check_apart(tmp_path, [tmp_path / "policy.toml"])


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [("file", folders.NotOurs, "is a file"), ("file/below", NotADirectoryError, "Not a directory"),
     ("a", HarnessError, "a: ")],
)  # fmt: skip
def test_what_is_no_folder_or_cannot_be_one_is_refused(
    tmp_path: Path, name: str, error: type[Exception], says: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(error, match=says):
        folders.claim(tmp_path / name, folders.RUN)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the folder of a test that of all temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.usefixtures("temporary")
def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays() -> None:
    said = killed("""
        from harness.core.files import scratch
        with scratch() as folder:
            (folder / "letter").write_text("private")
            print(folder, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    left = Path(said.strip())
    assert (left / "letter").read_text() == "private"
    with files.scratch() as living:
        assert not left.exists()
        with files.scratch():
            assert living.exists()


@pytest.mark.usefixtures("temporary")
def test_a_folder_is_empty_private_and_removed() -> None:
    with files.scratch() as one, files.scratch() as other:
        assert one != other
        assert not [*one.iterdir(), *other.iterdir()]
        assert not files.place().stat().st_mode & 0o077
        (one / "file").write_text("kept while the block runs")
    assert not [*files.place().iterdir()]


@pytest.mark.usefixtures("temporary")
def test_a_folder_that_others_may_read_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / f"harness-{os.getuid()}"
    taken.mkdir(mode=0o755)
    with pytest.raises(HarnessError, match="is not a folder that only you can read"):
        files.place()
    taken.rmdir()
    taken.symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="Remove it, or set TMPDIR"):
        files.place()


def test_where_no_folder_takes_temporary_files_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none = FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")
    monkeypatch.setattr(files, "gettempdir", Mock(side_effect=none))
    with pytest.raises(HarnessError, match=r"\['/tmp'\]\). Free some .* or set TMPDIR"):
        files.place()


@pytest.mark.usefixtures("temporary")
def test_a_disk_without_room_for_temporary_files_is_named_by_their_folder(tmp_path: Path) -> None:
    def write_much() -> None:
        with little_room(1_000), files.scratch() as folder:
            (folder / "file").write_bytes(bytes(2_000))

    with pytest.raises(HarnessError, match="temporary files cannot be written there") as said:
        write_much()
    assert str(said.value).startswith(f"{tmp_path}/harness-{os.getuid()}: ")
    assert str(said.value).endswith(files.REMEDY)
    assert not [*files.place().iterdir()]


STRAY = [
    ".DS_Store", "deep/er/.DS_Store", "._run.py", ".run.py.swp", ".run.py.swo", "run.py~",
    ".#run.py", "#run.py#", ".ipynb_checkpoints/x.py", "__pycache__/x.pyc", "Thumbs.db",
]  # fmt: skip
OURS_OR_OF_AN_ENGINE = [
    "run.py", "index.db-journal", "index.db-wal", ".lock", "a/.gitignore", "x.swp.py", "DS_Store",
]  # fmt: skip


@pytest.mark.parametrize("name", [*STRAY, *OURS_OR_OF_AN_ENGINE])
def test_what_desktops_and_editors_leave_is_no_part_of_a_folder(name: str) -> None:
    assert folders.is_stray(PurePath(name)) == (name in STRAY)
