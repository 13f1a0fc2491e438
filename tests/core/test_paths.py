"""A path that leads nowhere is refused before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile
from harness.core.files import check_leads, held, replacing, replacing_folder

Open = Callable[[Path], AbstractContextManager[Any]]


@pytest.mark.parametrize("opened", [held, replacing, replacing_folder])
def test_nothing_is_made_on_the_way_to_nowhere(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "file")
    for path, says in (
        (tmp_path / "new" / ".." / "file", "new is not a folder, so '..' has no meaning"),
        (tmp_path / "link", "is a link to nothing"),
    ):
        with pytest.raises(BadFile, match=says), opened(path):
            pass
    assert [one.name for one in tmp_path.iterdir()] == ["link"]


def test_a_way_up_from_a_folder_is_a_way(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for path in (tmp_path / "there" / ".." / "file", tmp_path / "link", tmp_path / "no" / "file"):
        check_leads(path)
