"""``harness init`` in a git repository: its files stay, and workflows lie where they are read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.core.errors import HarnessError
from harness.pipeline.init import BESIDE, INIT_PIPELINE, WORKFLOW, Begun, added, begin_project

GITHUB, GITLAB = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("# Ours\n")
    (tmp_path / ".gitignore").write_text("*.log\nout/")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_repository_keeps_its_files_and_gets_those_of_a_project(repository: Path) -> None:
    made = begin_project(Begun(repository, github=GITHUB, gitlab=GITLAB))
    assert {BESIDE, "ci.sh", "data/corpus.jsonl", WORKFLOW, INIT_PIPELINE} <= set(made)
    assert set(made) == {*files(repository)} - {"README.md", ".gitignore"}
    assert (repository / "README.md").read_text() == "# Ours\n"
    assert (repository / ".gitignore").read_text().split() == [
        "*.log", "out/", ".cache/", ".harness/", "__pycache__/", "*.looks.jsonl",
    ]  # fmt: skip
    assert (repository / "ci.sh").stat().st_mode & 0o111
    workflow = yaml.safe_load((repository / WORKFLOW).read_text())
    assert workflow["jobs"]["search"]["steps"][-1] == {"uses": "acme/search-harness/ci/github@v1"}
    (included,) = yaml.safe_load((repository / INIT_PIPELINE).read_text())["include"]
    assert "folder" not in included["inputs"]


@pytest.mark.parametrize("others", [(), ("engine.cfg",)])
def test_workflows_stand_at_the_root_and_name_the_folder(
    repository: Path, others: tuple[str, ...]
) -> None:
    folder = repository / "tools" / "my search"
    for name in others:
        folder.mkdir(parents=True)
        (folder / name).write_text("x")
    made = begin_project(Begun(folder, github=GITHUB, gitlab=GITLAB))
    assert {f"../../{WORKFLOW}", f"../../{INIT_PIPELINE}", "README.md", ".gitignore"} <= set(made)
    assert not (folder / ".github").exists()
    step = yaml.safe_load((repository / WORKFLOW).read_text())["jobs"]["search"]["steps"][-1]
    assert step["with"] == {"folder": "tools/my search"}
    (included,) = yaml.safe_load((repository / INIT_PIPELINE).read_text())["include"]
    assert included["inputs"]["folder"] == "tools/my search"


@pytest.mark.parametrize("name", ["params.yaml", INIT_PIPELINE, WORKFLOW, "data/corpus.jsonl"])
def test_what_is_there_is_named_and_nothing_is_written(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("ours")
    before = files(repository)
    with pytest.raises(HarnessError, match=r"is there already\. Move it") as told:
        begin_project(Begun(repository, github=GITHUB, gitlab=GITLAB))
    assert str(repository / name) in str(told.value)
    assert files(repository) == before


def test_what_was_added_is_gone_where_a_later_step_fails(repository: Path) -> None:
    before = files(repository)
    content = {repository / "a" / "b" / "one": b"1", repository / "two": b"#!/bin/sh"}
    with pytest.raises(OSError, match="full"), added(content):
        raise OSError("full")
    assert files(repository) == before
    assert not (repository / "a").exists()


def test_a_workflow_that_is_there_leaves_no_new_folder(repository: Path) -> None:
    (repository / INIT_PIPELINE).write_text("ours")
    with pytest.raises(HarnessError, match="is there already"):
        begin_project(Begun(repository / "mine", "fts5", gitlab=GITLAB))
    assert not (repository / "mine").exists()
