"""A folder is written into where it is new, empty or marked, and never where anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, HarnessError
from harness.core.folders import (
    OWNERS,
    RUN,
    SHADOW_REPORT,
    NotOurs,
    check_apart,
    check_held,
    check_new,
    claim,
    mark,
)


def test_a_new_an_empty_and_a_marked_folder_are_ours(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".index.html.lock").touch()
    for name in ("new", "empty", "deep/er"):
        folder = tmp_path / name
        claim(folder, RUN, project="mine")
        (folder / "index.html").write_text("ours")
        claim(folder, RUN)
        check_held(folder, RUN)
        said = mark(folder, RUN).read_text()
        assert said.startswith("harness run in the project mine made this folder")
        names = [path.name for path in folder.iterdir() if path.suffix != ".lock"]
        assert sorted(names) == ["harness-run.txt", "index.html"]


def test_every_owner_has_a_mark_of_its_own() -> None:
    assert len({mark(Path(), owner).name for owner in OWNERS}) == len(OWNERS)


def test_what_somebody_else_has_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "my docs"
    folder.mkdir()
    (folder / "index.html").write_text("mine")
    with pytest.raises(NotOurs, match="holds what harness run did not write") as refused:
        claim(folder, RUN)
    assert "for example index.html. Name a new or empty folder" in str(refused.value)
    command = str(refused.value).partition("set it: ")[2]
    assert command == f"touch '{folder}/harness-run.txt'"
    assert [path.name for path in folder.iterdir()] == ["index.html"]
    with pytest.raises(NotOurs, match="bears no mark of harness run"):
        check_held(folder, RUN)
    mark(folder, RUN).touch()
    claim(folder, RUN)
    check_held(folder, RUN)


def test_a_folder_of_another_command_is_named_as_its(tmp_path: Path) -> None:
    claim(tmp_path, RUN)
    with pytest.raises(NotOurs, match="belongs to harness run"):
        claim(tmp_path, SHADOW_REPORT)
    assert [path.name for path in tmp_path.iterdir()] == ["harness-run.txt"]


def test_what_an_earlier_version_wrote_is_known_where_it_proves_itself(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{}")
    claim(tmp_path, RUN, known=lambda folder: (folder / "ledger.json").is_file())
    assert mark(tmp_path, RUN).is_file()


@pytest.mark.parametrize("to", ["data", "data/out", "data/qrels/out", ".", "data/../data", "link"])
def test_a_place_that_is_or_touches_what_is_read_is_refused(tmp_path: Path, to: str) -> None:
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/qrels")
    with pytest.raises(NotOurs, match="which is read"):
        claim(tmp_path / to, RUN, reads=[tmp_path / "data"])
    assert not list(tmp_path.rglob("*.txt"))


@pytest.mark.parametrize("to", ["new/../mine", "mine/new/../..", "file/../mine"])
def test_up_from_a_folder_that_is_not_there_leads_nowhere(tmp_path: Path, to: str) -> None:
    """``new/../mine`` is not there until ``new`` is made; then it is a folder of somebody's own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "queries.jsonl").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadFile, match=r"'\.\.' has no meaning"):
        claim(tmp_path / to, RUN)
    with pytest.raises(BadFile, match=r"'\.\.' has no meaning"):
        check_new(tmp_path / to / "page.html")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "mine", "queries.jsonl"]


def test_a_link_to_what_is_read_is_refused_also_in_a_marked_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    claim(tmp_path / "out", RUN)
    (tmp_path / "out" / "runs").symlink_to(tmp_path / "data")
    with pytest.raises(NotOurs, match="which is read"):
        claim(tmp_path / "out", RUN, reads=[tmp_path / "data"])


def test_beside_what_is_read_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "policy.toml").write_text("x")
    claim(tmp_path / "data-out", RUN, reads=[tmp_path / "data", tmp_path / "policy.toml"])
    with pytest.raises(NotOurs, match=r"policy\.toml, which is read"):
        check_apart(tmp_path, [tmp_path / "policy.toml"])


def test_what_is_no_folder_or_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(NotOurs, match="is a file"):
        claim(tmp_path / "file", RUN)
    with pytest.raises(HarnessError, match="file/below: cannot be written"):
        claim(tmp_path / "file" / "below", RUN)
    with pytest.raises(HarnessError, match="a: "):
        claim(tmp_path / "a", RUN)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_is_new_or_ours(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    check_new(file)
    file.write_text("ours")
    check_new(file, ours=lambda path: path.read_text() == "ours")
    file.write_text("mine")
    with pytest.raises(NotOurs, match="is there already"):
        check_new(file, ours=lambda path: path.read_text() == "ours")
    with pytest.raises(NotOurs, match="is a folder"):
        check_new(tmp_path)
    with pytest.raises(NotOurs, match="which is read"):
        check_new(tmp_path / "x", reads=[tmp_path])
