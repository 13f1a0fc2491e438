"""The history of a project's own decisions, as stage and as command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.core.folders import HISTORY, set_mark
from harness.pipeline import report
from harness.pipeline.verify import verify
from harness.report import trends
from tests.cli.conftest import Harness, harness
from tests.make.toy import NAME, Toy

pytestmark = pytest.mark.slow

__all__ = ["harness"]


def test_a_decision_is_added_once_and_shown(project: Toy, harness: Harness) -> None:
    project.decide()
    assert harness("history", "add").out == "toy: added, 3 experiments\n"
    assert harness("history", "add", "--dataset", NAME).out == "toy: known already, 3 experiments\n"
    (found,) = trends.read(project.root / "history" / "toy.jsonl")
    assert set(found.means) == {"fts5", "tantivy", "hash-hybrid"}
    assert set(found.steps[0].ratios) == {"p50", "p95", "mean"}
    assert found.commit == ""
    said = harness("history", "page")
    assert said.code == 0
    page = project.root / "reports" / "trends.html"
    assert said.out == f"1 decisions: {page}\n"
    assert "hash-hybrid" in page.read_text()
    project.decide(later_s=2)
    assert harness("history", "add").out == "toy: added, 4 experiments\n"
    assert "2 decisions" in harness("history", "page").out


def test_what_does_not_verify_is_not_kept(project: Toy, harness: Harness) -> None:
    assert "nothing was decided yet" in harness("history", "add").error
    project.decide()
    path = project.layout.scores
    path.write_text(path.read_text() + " ")
    assert "scores.json: was changed since" in harness("history", "add").error
    assert not (project.root / "history").exists()
    assert "holds no history" in harness("history", "page").error


def test_a_decision_whose_log_is_another_is_not_added(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    other = project.copied(tmp_path / "other")
    other.decide(later_s=2)
    project.decide()
    folder = project.root / "shared"
    set_mark(folder, HISTORY)
    (folder / "experiments").mkdir()
    shutil.copy(other.layout.experiments / "log.jsonl", folder / "experiments" / "toy.jsonl")
    assert "kept 3, of which it has the first 2" in harness("history", "add", "--at", folder).error
    assert not (folder / "toy.jsonl").exists()


def test_what_a_run_left_has_a_history_too(project: Toy, tmp_path: Path) -> None:
    project.decide()
    folder = tmp_path / "history"
    assert report.add(project.layout, folder, commit="abc", held=lambda: verify(project.layout))
    assert report.page(folder, tmp_path / "trends.html") == 1
    with pytest.raises(EvidenceError, match="holds no history"):
        report.page(tmp_path / "none", tmp_path / "x.html")


def test_a_commit_is_named_with_a_sign_where_files_differ(tmp_path: Path) -> None:
    assert report.commit_of(tmp_path) == ""
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    (tmp_path / "a").write_text("a")
    for words in (("init", "-q"), ("add", "a"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)
    clean = report.commit_of(tmp_path)
    assert len(clean) == 12
    (tmp_path / "a").write_text("b")
    assert report.commit_of(tmp_path) == f"{clean}+"
