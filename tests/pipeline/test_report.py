"""The stage report: pages, history, links and what CI reads."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.pipeline.report import report
from harness.report import trends
from harness.report.files import ReportFiles
from tests.cli.conftest import Harness, harness
from tests.make.toy import NAME, Toy


def made(project: Toy) -> ReportFiles:
    subjects = {project.layout: project.project.subject(NAME)}
    return report(subjects, project.root / "reports", project.root / "reports" / "receipt.json")


@pytest.mark.slow
def test_five_files_and_a_receipt(project: Toy) -> None:
    project.decide()
    written = made(project)
    assert {path.name for path in written} == {
        "index.html", "explore.html", "report.md", "decision.json", "junit.xml",
    }  # fmt: skip
    assert "PROMOTE" in written.markdown.read_text().upper()
    page = written.page.read_text()
    assert page.lower().startswith("<!doctype html>")
    ours, theirs = (
        json.loads(path.read_text()) for path in (written.decision, project.layout.decision)
    )
    assert ours["datasets"][0]["record"] == theirs["datasets"][0]["record"]
    said = ours["summary"]["outcomes"]
    assert said == {"promote": 1, "hold": 0, "rollback": 0}


@pytest.mark.slow
def test_a_policy_changed_since_the_decision_is_no_report(project: Toy) -> None:
    project.decide()
    path: Path = project.root / "policy" / "toy.toml"
    path.write_text(path.read_text().replace("margin = 0.15", "margin = 0.2"))
    with pytest.raises(EvidenceError, match=r"toy\.toml: was changed since"):
        made(project)


NOW = datetime(2026, 1, 31, tzinfo=UTC)


__all__ = ["harness"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_does_not_verify_is_not_kept(project: Toy, harness: Harness) -> None:
    assert "nothing was decided yet" in harness("history", "add").error
    project.decide()
    path = project.layout.scores
    path.write_text(path.read_text() + " ")
    assert "scores.json: was changed since" in harness("history", "add").error
    assert not (project.root / "history").exists()
    assert "holds no history" in harness("history", "page").error
