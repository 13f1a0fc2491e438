"""Files are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core import files
from harness.core.files import (
    append_text,
    make_private,
    remove,
    replacing,
    replacing_folder,
    sweep,
    write_json,
    write_text,
)
from tests.make.killed import killed as in_a_process


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed(path: Path) -> None:
    path.write_text("half")
    raise KeyboardInterrupt


def test_a_path_that_begins_with_a_tilde_is_no_path_of_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    with replacing(Path("~/table.parquet")) as beside:
        pq.write_table(pa.table({"a": [1]}), beside)
    with replacing_folder(Path("~/tables")) as folder:
        pq.write_table(pa.table({"a": [1]}), folder / "table.parquet")
    assert names(tmp_path / "~") == {"table.parquet", "tables"}
    assert names(tmp_path / "home") == set()


def test_a_file_appears_when_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    with replacing(path) as beside:
        beside.write_text("whole")
        assert not path.exists()
        assert beside.parent.parent == path.parent
    assert path.read_text() == "whole"
    assert names(path.parent) == {"file"}


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as beside:
        killed(beside)
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


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


def test_a_block_that_writes_nothing_is_an_error_and_keeps_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), replacing(path):
        pass
    assert path.read_text() == "old"


def test_a_folder_is_replaced_and_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")
    with replacing_folder(path) as beside:
        (beside / "new").write_text("new")
        assert names(path) == {"old"}
    assert names(path) == {"new"}
    assert names(tmp_path) == {"folder"}


def test_an_exception_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing_folder(path) as beside:
        killed(beside / "new")
    assert names(path) == {"old"}
    assert names(tmp_path) == {"folder"}


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(FileNotFoundError), replacing_folder(path) as beside:
        beside.rmdir()
    assert names(path) == {"old"}
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


@pytest.mark.parametrize("hostile", ["link", "fifo", "full"])
def test_what_somebody_planted_stops_no_writer(tmp_path: Path, hostile: str) -> None:
    path = tmp_path / f".{'a' * 16}.partial"
    (tmp_path / "kept").write_text("kept")
    if hostile == "link":
        path.symlink_to(tmp_path)
    elif hostile == "fifo":
        os.mkfifo(path)
    else:
        (path / "inner").mkdir(parents=True)
    write_text(tmp_path / "file", "whole")
    assert (tmp_path / "file").read_text() == "whole"
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_text(path, "whole")
    assert path.read_text() == "whole"


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


def test_a_log_grows_by_whole_lines_also_after_one_that_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log"
    append_text(path, "one\n")
    append_text(path, "two")
    append_text(path, "three\n")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_text_is_utf_8_with_unix_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "é\nb\r\n")
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9\nb\r\n"


def test_json_is_sorted_and_plain(tmp_path: Path) -> None:
    write_json(tmp_path / "file", {"b": 1, "a": "é"})
    assert (tmp_path / "file").read_text(encoding="utf-8") == '{\n  "a": "é",\n  "b": 1\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_is_not_json_is_refused_and_the_old_stays(tmp_path: Path, value: object) -> None:
    write_json(tmp_path / "file", "old")
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "file", value)
    assert (tmp_path / "file").read_text() == '"old"\n'


def write_surrogate(path: Path) -> None:
    write_text(path, "half \ud800")


def write_object(path: Path) -> None:
    write_json(path, object())


@pytest.mark.parametrize("write", [write_surrogate, write_object])
def test_what_cannot_be_written_leaves_the_old(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises((UnicodeEncodeError, TypeError)):
        write(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_what_many_add_at_once_is_all_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append_text(path, f"{number}\n"), range(80)))
    assert sorted(map(int, path.read_text().split())) == list(range(80))
    assert names(tmp_path) == {"file"}


def test_a_new_cache_is_closed_to_others(tmp_path: Path) -> None:
    write_text(tmp_path / "mine" / ".cache" / "index" / "text", "private")
    assert stat.S_IMODE((tmp_path / "mine" / ".cache").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    make_private(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
