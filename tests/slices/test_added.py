"""A kind of evidence of another package: ``examples/cost_evidence``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.make.toy import HEAD, NAME, STEP, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
EXAMPLE = ROOT / "examples" / "cost_evidence"
GATE = """
[[step.gate]]
name = "Cheap"
rule = "cost"
max_ratio = 1.5
"""


def harness(project: Toy, packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(packages), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "harness", *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
    )


def found(project: Toy) -> tuple[str, str, str | None]:
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    (one,) = about["steps"][0]["findings"]
    return one["verdict"], one["cause"], one.get("settle")


def test_another_package_adds_evidence_a_gate_a_line_and_a_command(
    measured: Toy, tmp_path: Path
) -> None:
    project, packages = measured.copied(tmp_path / "project"), tmp_path / "packages"
    told = packages / "cost_evidence-1.dist-info"
    told.mkdir(parents=True)
    (packages / "cost.py").write_text((EXAMPLE / "cost.py").read_text())
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: cost-evidence\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[harness.parts]\ncost = cost:KIND\n")
    project.policy(HEAD + STEP + GATE)
    of = ("--dataset", NAME)
    assert harness(project, packages, "gate", *of).returncode == 3
    assert found(project) == ("inconclusive", "no_evidence", "run: harness cost")
    for arm, dollars in (("fts5", "0.1"), ("tantivy", "0.12")):
        done = harness(project, packages, "cost", dollars, *of, "--arm", arm)
        assert done.returncode == 0, done.stderr
    harness(project, packages, "gate", *of)
    assert found(project)[:2] == ("pass", "kept")
    assert "cost.json" in project.layout.decision_receipt.read_text()
    done = harness(project, packages, "report")
    assert done.returncode == 0, done.stderr
    page = (project.root / "reports" / "index.html").read_text()
    assert "tantivy costs 0.12 dollars" in page
    done = harness(project, packages, "verify", *of)
    assert done.returncode == 0, done.stderr
    (project.layout.root / "cost.json").write_text('{"fts5": 0.1, "tantivy": 0.11}')
    assert "was changed" in harness(project, packages, "verify", *of).stderr


def test_the_example_is_short_and_names_the_entry_point() -> None:
    lines = (EXAMPLE / "cost.py").read_text().splitlines()
    assert sum(bool(line) for line in lines) <= 60
    assert 'cost = "cost:KIND"' in (EXAMPLE / "pyproject.toml").read_text()
