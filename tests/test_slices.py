"""A kind of evidence is added and deleted as one folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.command import PANELS
from harness.core.parts import RULES
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
    done = harness(project, packages, "verify", *of)
    assert done.returncode == 0, done.stderr
    (project.layout.root / "cost.json").write_text('{"fts5": 0.1, "tantivy": 0.11}')
    assert "was changed" in harness(project, packages, "verify", *of).stderr


SLICES = (
    "clicks", "judge", "load", "logs", "migrate", "serve", "services", "shadow", "tables", "trust",
    "tune",
)  # fmt: skip
NEED = {
    "judge": {"serve"},
    "logs": {"services"},
    "migrate": {"clicks"},
    "shadow": {"logs", "services"},
}
"""Slices that need a slice: without it their own commands end with exit code 2."""
LEFT = """if True:
    import sys
    from importlib import import_module
    from pathlib import Path
    from harness.core.parts import kinds
    for kind in kinds():
        print(*(m for m in sys.modules if m.startswith(f"harness.{kind.name}.")), end=" ")
    print()
    for path in sorted(Path("harness").glob("*/[a-z]*.py")):
        try:
            import_module(".".join(path.with_suffix("").parts))
        except ModuleNotFoundError:
            print(path.parent.name, end=" ")
    print(flush=True)
    sys.argv = ["harness", "--help"]
    import_module("harness.cli").main()
"""
GATE_DELETED = """
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
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": f"{copy}:{copy / 'engines'}", "COLUMNS": "200"},
        cwd=at or copy,
        capture_output=True,
        text=True,
        check=False,
    )


FIRST = sorted(SLICES, key=lambda name: (name not in RULES.values(), name))
"""Slices, those with rules of gates first: a run without ``--all`` takes the first."""


@pytest.fixture(scope="module", params=FIRST)
def slice_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def copy(slice_: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the code without one folder."""
    to = tmp_path_factory.mktemp("copy")
    for name in ("harness", "engines", "policy"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "params.yaml", to)
    shutil.rmtree(to / "harness" / slice_)
    return to


@pytest.mark.sampled(1)
def test_the_others_are_imported_and_help_does_not_name_it(copy: Path, slice_: str) -> None:
    done = run(copy, "-c", LEFT)
    assert done.returncode == 0, done.stderr
    of_kinds, lack, *lines = done.stdout.splitlines()
    modules = {module.rpartition(".")[2] for module in of_kinds.split()}
    assert modules <= {"evidence", "paths"}, "to list the kinds imports no more of a slice"
    assert {*lack.split()} == NEED.get(slice_, set())
    named = {line.split()[1] for line in lines if line.startswith("│ ")}
    homes = {name: home for of in PANELS.values() for name, home in of.items()}
    assert {"run", "gate", "verify", "report"} <= named
    assert not {name for name in named if homes.get(name, "").startswith(f"{slice_}.")}


@pytest.mark.sampled(1)
def test_a_step_is_decided_and_verified(
    copy: Path, slice_: str, measured: Toy, tmp_path: Path
) -> None:
    project, of = measured.copied(tmp_path / "project"), ("--dataset", NAME)
    project.policy(HEAD + STEP + GATE_DELETED)
    done = run(copy, "-m", "harness", "gate", *of, at=project.root)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(copy, "-m", "harness", "verify", *of, at=project.root)
    assert done.returncode == 0, done.stdout + done.stderr
    for rule in (name for name, part in RULES.items() if part == slice_):
        project.policy(HEAD + STEP + GATE_DELETED + MISSING.format(rule))
        assert run(copy, "-m", "harness", "gate", *of, at=project.root).returncode == 3
        (about,) = json.loads(project.layout.decision.read_text())["datasets"]
        found = about["steps"][0]["findings"][-1]
        assert (found["verdict"], found["cause"]) == ("inconclusive", "no_evidence")
        assert "pip install" in found["settle"]
