"""A folder is replaced where it is an earlier export, and refused where anything else is in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.api.export import LIST, exported
from harness.core import digest
from harness.core.errors import HarnessError
from harness.core.folders import EXPORT, mark

MARK = mark(Path(), EXPORT).name


def export(to: Path, *names: str, text: str = "x") -> None:
    with exported(to, {"arms": ("a", "b")}) as beside:
        for name in names:
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_folder_lists_its_files(tmp_path: Path) -> None:
    to = tmp_path / "not" / "there" / "paper"
    export(to, "runs/a.trec", "table.md")
    assert names(to) == [LIST, MARK, "runs/a.trec", "table.md"]
    said = json.loads((to / LIST).read_text())
    assert said["of"] == {"arms": ["a", "b"]}
    assert said["sha256"] == {name: digest.of_bytes(b"x") for name in ("runs/a.trec", "table.md")}


def test_an_earlier_export_goes_whole(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    export(to, "runs/old.trec", "table.md")
    (to / "table.md").unlink()
    export(to, "runs/new.trec")
    assert names(to) == [LIST, MARK, "runs/new.trec"]
    assert [path.name for path in tmp_path.iterdir()] == ["paper"]


def test_an_empty_folder_is_filled_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "paper").symlink_to("real")
    for name in ("a", "b"):
        export(tmp_path / "paper", name)
        assert names(tmp_path / "real") == sorted([name, LIST, MARK])
    assert (tmp_path / "paper").is_symlink()


@pytest.mark.parametrize("list_there", [True, False])
@pytest.mark.parametrize("name", ["mine.tex", "runs/mine.trec", ".hidden"])
def test_a_file_of_ones_own_is_never_lost(tmp_path: Path, name: str, *, list_there: bool) -> None:
    to = tmp_path / "paper"
    export(to, "runs/a.trec")
    if not list_there:
        (to / LIST).unlink()
    (to / name).write_text("my own")
    with pytest.raises(HarnessError, match=r"is not of an earlier export\. Move it away"):
        export(to, "runs/b.trec")
    assert (to / name).read_text() == "my own"
    assert "runs/a.trec" in names(to)


def test_what_was_edited_is_never_lost(tmp_path: Path) -> None:
    export(tmp_path / "paper", "table.tex")
    (tmp_path / "paper" / "table.tex").write_text("edited")
    with pytest.raises(HarnessError, match=r"table\.tex: was changed since it was exported"):
        export(tmp_path / "paper", "table.tex")
    assert (tmp_path / "paper" / "table.tex").read_text() == "edited"


def test_a_link_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    export(tmp_path / "paper", "table.tex")
    (tmp_path / "paper" / "table.tex").rename(tmp_path / "mine.tex")
    (tmp_path / "paper" / "table.tex").symlink_to(tmp_path / "mine.tex")
    (tmp_path / "paper" / "folder").symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="folder: is not of an earlier export"):
        export(tmp_path / "paper", "table.tex")
    (tmp_path / "paper" / "folder").unlink()
    with pytest.raises(HarnessError, match=r"table\.tex: was changed"):
        export(tmp_path / "paper", "table.tex")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "sha256": {"a": "b"}}', "\udcff"])
def test_a_list_that_cannot_be_read_is_of_no_export(tmp_path: Path, text: str) -> None:
    export(tmp_path / "paper", "a")
    (tmp_path / "paper" / LIST).write_bytes(os.fsencode(text))
    with pytest.raises(HarnessError, match=f"paper/{LIST}: is not of an earlier export"):
        export(tmp_path / "paper", "a")


def test_what_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    export(to, "a")
    with pytest.raises(ZeroDivisionError), exported(to, {}) as beside:
        (beside / "b").write_text(str(1 / 0))
    assert names(to) == ["a", LIST, MARK]
    assert [path.name for path in tmp_path.iterdir()] == ["paper"]


def test_an_export_of_an_earlier_version_proves_itself_by_its_list(tmp_path: Path) -> None:
    export(tmp_path / "paper", "a")
    (tmp_path / "paper" / MARK).unlink()
    export(tmp_path / "paper", "b")
    assert names(tmp_path / "paper") == ["b", LIST, MARK]


def test_a_folder_that_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (
        pytest.raises(HarnessError, match="which is read"),
        exported(tmp_path / "run" / "paper", {}, reads=[tmp_path / "run"]),
    ):
        pass
    assert not list((tmp_path / "run").iterdir())


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "paper").write_text("my own")
    with pytest.raises(HarnessError, match="paper: is a file"):
        export(tmp_path / "paper", "a")
    with pytest.raises(HarnessError, match=r"paper/deeper: cannot be written \("):
        export(tmp_path / "paper" / "deeper", "a")
    assert (tmp_path / "paper").read_text() == "my own"


def test_somebodys_own_file_of_that_name_stays(tmp_path: Path) -> None:
    to = tmp_path / "paper"
    to.mkdir()
    (to / LIST).write_text('{"my": "precious"}')
    with pytest.raises(HarnessError, match=f"{LIST}: is not of an earlier export"):
        export(to, "a")
    assert (to / LIST).read_text() == '{"my": "precious"}'
