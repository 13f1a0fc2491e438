"""A kind of evidence is added and deleted as one folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
OF = ("--dataset", NAME)
POLICY = "policy/toy.toml"
WRITE = "="
"""Before a path and a text: what is written between two commands."""
TYPED = """if True:
    import json, sys
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO
    from pathlib import Path
    from harness.cli import main

    for first, *words in json.load(sys.stdin):
        if first == "=":
            Path(words[0]).write_text(words[1])
            continue
        said, code, sys.argv = StringIO(), 0, ["harness", first, *words]
        with redirect_stdout(said), redirect_stderr(said):
            try:
                main()
            except SystemExit as left:
                code = left.code
        decided = Path({decision!r})
        told = decided.read_text() if decided.exists() else "null"
        print(json.dumps([code, said.getvalue(), json.loads(told)]))
"""


class Ended(NamedTuple):
    """How a command ended, what it said, and the decision that was there then."""

    code: int
    said: str
    decision: dict[str, list[dict[str, list[dict[str, list[dict[str, str]]]]]]]

    @property
    def finding(self) -> dict[str, str]:
        """Return the last finding of the one step."""
        (about,) = self.decision["datasets"]
        return about["steps"][0]["findings"][-1]

    @property
    def verdict(self) -> tuple[str, str]:
        return self.finding["verdict"], self.finding["cause"]


def python(*words: str, at: Path, path: Sequence[Path], typed: str = "") -> str:
    """Run Python with these folders on its path; return what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "200"},
        cwd=at,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def harness(project: Toy, path: Sequence[Path], *lines: Sequence[str]) -> list[Ended]:
    """Type commands one after the other in a process that has no other code of ours."""
    decision = str(project.layout.decision)
    typed = python(
        "-c", TYPED.replace("{decision!r}", repr(decision)), at=project.root, path=path,
        typed=json.dumps(lines),
    )  # fmt: skip
    return [Ended(*json.loads(line)) for line in typed.splitlines()]


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
    absent, *costs, gated, verified, changed = harness(
        project,
        (packages, ROOT),
        ("gate", *OF),
        ("cost", "0.1", *OF, "--arm", "fts5"),
        ("cost", "0.12", *OF, "--arm", "tantivy"),
        ("gate", *OF),
        ("verify", *OF),
        (WRITE, str(project.layout.root / "cost.json"), '{"fts5": 0.1, "tantivy": 0.11}'),
        ("verify", *OF),
    )
    assert (absent.code, absent.verdict) == (3, ("inconclusive", "no_evidence"))
    assert absent.finding["settle"] == "run: harness cost"
    assert [one.code for one in costs] == [0, 0], costs
    assert gated.verdict == ("pass", "kept")
    assert "cost.json" in project.layout.decision_receipt.read_text()
    assert verified.code == 0, verified.said
    assert "was changed" in changed.said


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
    of_kinds, lack, *lines = python("-c", LEFT, at=copy, path=(copy, copy / "engines")).splitlines()
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
    project = measured.copied(tmp_path / "project")
    project.policy(HEAD + STEP + GATE_DELETED)
    asked = [("gate", *OF), ("verify", *OF)]
    for rule in (name for name, part in RULES.items() if part == slice_):
        text = HEAD + STEP + GATE_DELETED + MISSING.format(rule)
        asked += [(WRITE, POLICY, text), ("gate", *OF)]
    decided, verified, *missing = harness(project, (copy, copy / "engines"), *asked)
    assert (decided.code, verified.code) == (0, 0), (decided.said, verified.said)
    for one in missing:
        assert (one.code, one.verdict) == (3, ("inconclusive", "no_evidence"))
        assert "pip install" in one.finding["settle"]
