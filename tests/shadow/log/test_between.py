"""The names of the two engines beside a log (between)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.shadow.log import FILE, Between, read_engines, write


def test_names_come_back_and_are_said(tmp_path: Path) -> None:
    write(tmp_path, Between("old", "new"))
    assert read_engines([tmp_path]) == Between("old", "new")
    assert read_engines([tmp_path]).said == "old → new"


def test_logs_of_other_engines_have_no_common_name(tmp_path: Path) -> None:
    one, other, silent = (tmp_path / name for name in "abc")
    for folder in (one, other, silent):
        folder.mkdir()
    write(one, Between("old", "new"))
    write(other, Between("old", "newer"))
    assert read_engines([one, silent]) == Between("old", "new")
    assert not read_engines([one, other]).said
    assert not read_engines([silent]).said


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"control": 1, "candidate": "b"}', "\udcff"])
def test_a_file_that_names_nothing_is_named_with_its_hint(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, errors="surrogateescape")
    with pytest.raises(BadFile, match=r"between\.json: does not name two engines.*Remove it"):
        read_engines([tmp_path])


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadFile, match=r"cannot be written"):
        write(tmp_path / "file", Between("old", "new"))
