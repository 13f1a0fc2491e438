"""Stage ``report``: pages of decisions that still hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.corpus.runs import read_run, write_run
from harness.pipeline.report import report
from harness.report.files import Written
from tests.make.toy import CANDIDATE, NAME, Toy

pytestmark = pytest.mark.slow


def made(project: Toy) -> Written:
    subjects = {project.layout: project.project.subject(NAME)}
    return report(subjects, project.root / "reports", project.root / "reports" / "receipt.json")


def test_five_files_and_a_receipt(project: Toy) -> None:
    project.decide()
    written = made(project)
    assert {path.name for path in written} == {
        "index.html", "explore.html", "report.md", "decision.json", "junit.xml",
    }  # fmt: skip
    assert "PROMOTE" in written.markdown.read_text().upper()
    page = written.page.read_text()
    assert page.lower().startswith("<!doctype html>")
    said = json.loads(written.decision.read_text())["summary"]["outcomes"]
    assert said == {"promote": 1, "hold": 0, "rollback": 0}


def test_the_receipt_names_the_findings(project: Toy) -> None:
    project.decide()
    made(project)
    receipt = json.loads((project.root / "reports" / "receipt.json").read_text())
    assert receipt["from"] == {NAME: digest.of_file(project.layout.findings)}


def test_nothing_decided_is_no_report(project: Toy) -> None:
    with pytest.raises(BadFile, match="nothing was decided yet"):
        made(project)
    assert not (project.root / "reports").exists()


def test_a_policy_changed_since_the_decision_is_no_report(project: Toy) -> None:
    project.decide()
    path: Path = project.root / "policy" / "toy.toml"
    path.write_text(path.read_text().replace("margin = 0.15", "margin = 0.2"))
    with pytest.raises(EvidenceError, match=r"toy\.toml: was changed since"):
        made(project)


def test_a_run_changed_since_the_decision_is_no_report(project: Toy) -> None:
    project.decide()
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="was changed since"):
        made(project)
