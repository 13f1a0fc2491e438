"""Files are replaced whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.core.files import alone, replacing, replacing_folder, write_json, write_text


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed(path: Path) -> None:
    path.write_text("half")
    raise KeyboardInterrupt


def test_a_file_appears_when_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    with replacing(path) as beside:
        beside.write_text("whole")
        assert not path.exists()
        assert beside.parent == path.parent
    assert path.read_text() == "whole"
    assert names(path.parent) == {"file"}


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as beside:
        killed(beside)
    assert path.read_text() == "old"
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


def test_what_a_killed_process_left_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with replacing_folder(path) as beside:
        left = beside.name
    (tmp_path / left).mkdir()
    (tmp_path / left / "stale").write_text("stale")
    with replacing_folder(path) as beside:
        assert names(beside) == set()
    assert names(tmp_path) == {"folder"}


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


def test_what_is_read_and_written_by_many_at_once_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")

    def add(number: int) -> None:
        with alone(tmp_path):
            write_text(path, f"{path.read_text()}{number}\n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(80)))
    assert sorted(map(int, path.read_text().split())) == list(range(80))
    assert names(tmp_path) == {"file"}


def test_a_folder_is_let_go_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), alone(tmp_path):
        killed(tmp_path / "file")
    with alone(tmp_path):
        write_text(tmp_path / "file", "whole")
    assert (tmp_path / "file").read_text() == "whole"
