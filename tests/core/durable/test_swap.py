"""Two folders change places in one step."""

from __future__ import annotations

from pathlib import Path

from harness.core.files import swapped


def test_two_folders_change_places(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if swapped(tmp_path / "one", tmp_path / "other"):
        assert (tmp_path / "one" / "other").exists()
        assert (tmp_path / "other" / "one").exists()
    else:
        assert (tmp_path / "one" / "one").exists()


def test_what_is_not_there_changes_places_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    assert not swapped(tmp_path / "one", tmp_path / "other")
    assert {path.name for path in tmp_path.iterdir()} == {"one"}
