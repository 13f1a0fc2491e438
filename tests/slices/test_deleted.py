"""A slice is one folder: without it the core runs, decides, and says what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.parts import RULES
from tests.make.toy import HEAD, NAME, STEP, Toy
from tests.source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.sampled(1)]
COMMANDS = {
    "clicks": ("clicks",),
    "judge": ("pool", "judge", "panel", "labels"),
    "load": ("load",),
    "logs": ("queries",),
    "migrate": ("migrate",),
    "serve": ("serve",),
    "services": ("compare",),
    "shadow": ("shadow",),
    "tables": ("table",),
    "trust": ("sign", "reproduce"),
    "tune": ("tune",),
}
QUICK = ("tests/measures", "tests/gates/test_latency.py", "tests/gates/test_quality.py")
"""Tests of the core that take seconds."""
GATE = """
[[step.gate]]
name = "Answers"
rule = "failure_rate"
max_share = 0.15
"""
MISSING = """
[[step.gate]]
name = "Of a slice"
rule = "{}"
max_ms = 5
"""


def run(copy: Path, *words: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, "PYTHONPATH": f"{copy}:{copy / 'engines'}", "COLUMNS": "200"},
        cwd=at or copy,
        capture_output=True,
        text=True,
        check=False,
    )


FIRST = sorted(COMMANDS, key=lambda name: (name not in RULES.values(), name))
"""Slices, those with rules of gates first: a run without ``--all`` takes the first."""


@pytest.fixture(scope="module", params=FIRST)
def slice_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def copy(slice_: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the code without one folder."""
    to = tmp_path_factory.mktemp("copy")
    kept = shutil.ignore_patterns("__pycache__", "golden*", "oracle", "browser", "mutants")
    for name in ("harness", "engines", "tests", "policy"):
        shutil.copytree(ROOT / name, to / name, ignore=kept)
    for name in ("pyproject.toml", "params.yaml"):
        shutil.copy(ROOT / name, to / name)
    shutil.rmtree(to / "harness" / slice_)
    shutil.rmtree(to / "tests" / slice_, ignore_errors=True)
    return to


def test_help_does_not_name_it(copy: Path, slice_: str) -> None:
    done = run(copy, "harness", "--help")
    assert done.returncode == 0, done.stderr
    named = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("│ ")}
    assert named.isdisjoint(COMMANDS[slice_])
    assert {"run", "gate", "verify", "report"} <= named


def test_a_step_is_decided_and_verified(
    copy: Path, slice_: str, measured: Toy, tmp_path: Path
) -> None:
    project, of = measured.copied(tmp_path / "project"), ("--dataset", NAME)
    project.policy(HEAD + STEP + GATE)
    done = run(copy, "harness", "gate", *of, at=project.root)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(copy, "harness", "verify", *of, at=project.root)
    assert done.returncode == 0, done.stdout + done.stderr
    for rule in (name for name, part in RULES.items() if part == slice_):
        project.policy(HEAD + STEP + GATE + MISSING.format(rule))
        assert run(copy, "harness", "gate", *of, at=project.root).returncode == 3
        (about,) = json.loads(project.layout.decision.read_text())["datasets"]
        found = about["steps"][0]["findings"][-1]
        assert (found["verdict"], found["cause"]) == ("inconclusive", "no_evidence")
        assert "pip install" in found["settle"]


def test_quick_tests_of_the_core_pass(copy: Path) -> None:
    words = ("pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-m", "not slow", *QUICK)
    done = run(copy, *words)
    assert done.returncode == 0, done.stdout[-4_000:]
