"""A kind of evidence is added and deleted as one folder."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.cli.command import PANELS
from harness.core.parts import RULES
from tests.absent import SLICES
from tests.make.toy import HEAD, NAME, STEP, Toy
from tests.programs import READ, WRITE, harness_of, python
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
GATED = [("gate", *OF), (READ, f"perf/{NAME}/decision.json")]
"""A command, and the decision that it leaves."""


def finding(decision: str) -> dict[str, str]:
    """Return the last finding of the one step."""
    (about,) = json.loads(decision)["datasets"]
    found: dict[str, str] = about["steps"][0]["findings"][-1]
    return found


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
    costs = project.layout.root / "cost.json"
    absent, was, first, second, _, now, verified, _, changed = harness_of(
        (packages, ROOT),
        *GATED,
        ("cost", "0.1", *OF, "--arm", "fts5"),
        ("cost", "0.12", *OF, "--arm", "tantivy"),
        *GATED,
        ("verify", *OF),
        (WRITE, costs, '{"fts5": 0.1, "tantivy": 0.11}'),
        ("verify", *OF),
        at=project.root,
    )
    assert absent[0] == 3
    found = finding(was[1])
    assert (found["verdict"], found["cause"]) == ("inconclusive", "no_evidence")
    assert found["settle"] == "run: harness cost"
    assert (first[0], second[0], verified[0]) == (0, 0, 0), (first, second, verified)
    assert (finding(now[1])["verdict"], finding(now[1])["cause"]) == ("pass", "kept")
    assert "cost.json" in project.layout.decision_receipt.read_text()
    assert "was changed" in changed[1]


NEED = {"judge": "serve", "logs": "services", "migrate": "clicks", "shadow": "logs services"}
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
    """Copy the code without one folder; what was compiled is as good there."""
    to = tmp_path_factory.mktemp("copy")
    for name in ("harness", "engines", "policy"):
        shutil.copytree(ROOT / name, to / name)
    shutil.copy(ROOT / "params.yaml", to)
    shutil.rmtree(to / "harness" / slice_)
    return to


@pytest.mark.sampled(1)
def test_the_others_are_imported_and_help_does_not_name_it(copy: Path, slice_: str) -> None:
    of_kinds, lack, *lines = python("-c", LEFT, at=copy, path=(copy, copy / "engines")).splitlines()
    modules = {module.rpartition(".")[2] for module in of_kinds.split()}
    assert modules <= {"evidence", "paths"}, "to list the kinds imports no more of a slice"
    assert {*lack.split()} == {*NEED.get(slice_, "").split()}
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
    asked: list[Sequence[str]] = [("gate", *OF), ("verify", *OF)]
    for rule in (name for name, part in RULES.items() if part == slice_):
        text = HEAD + STEP + GATE_DELETED + MISSING.format(rule)
        asked += [(WRITE, "policy/toy.toml", text), *GATED]
    decided, verified, *missing = harness_of((copy, copy / "engines"), *asked, at=project.root)
    assert (decided[0], verified[0]) == (0, 0), (decided, verified)
    for (code, _), (_, decision) in zip(missing[1::3], missing[2::3], strict=True):
        found = finding(decision)
        assert (code, found["verdict"], found["cause"]) == (3, "inconclusive", "no_evidence")
        assert "pip install" in found["settle"]
