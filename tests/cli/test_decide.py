"""``harness gate``: old evidence under a new policy."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.gate import Outcome
from harness.pipeline.gate import decide_again
from harness.policy.decision import worst
from harness.policy.load import load_policy
from tests.cli.conftest import Harness
from tests.make.toy import CONTROL, GATES, HEAD, NAME, RACED, STEP, Toy

pytestmark = pytest.mark.slow
FAILS = GATES.replace("floor = 0.6", "floor = 0.999")
UNSURE = GATES.replace("margin = 0.15", "margin = 0.15\nslice = 'identifier'")


def policy(project: Toy, text: str) -> Path:
    path = project.root / "policy" / "new.toml"
    path.write_text(text)
    return path


def listing(folder: Path) -> dict[Path, bytes]:
    """Read every file but the log, which counts each look."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.parent.name != "experiments"}


@pytest.mark.parametrize(
    ("gates", "code", "says"),
    [
        (GATES, 0, "PROMOTE"),
        (GATES + RACED, 0, "PROMOTE"),
        (FAILS, 1, "FAIL: Overlap"),
        (UNSURE, 3, "HOLD (inconclusive)"),
    ],
)
def test_old_evidence_is_judged_without_an_index_and_nothing_is_written(
    project: Toy, harness: Harness, gates: str, code: int, says: str
) -> None:
    shutil.rmtree(project.cache)
    new = policy(project, HEAD + STEP + gates)
    before = listing(project.root)
    said = harness("gate", "--policy", new, "--dataset", NAME)
    assert said.code == code, said
    assert says in said.out
    assert listing(project.root) == before


def test_it_says_what_gate_would_say(project: Toy, harness: Harness) -> None:
    new = policy(project, HEAD + STEP + FAILS)
    decided = harness("gate", "--policy", new)
    project.policy(new.read_text())
    assert decided == harness("gate")


def test_a_policy_that_is_wrong_is_two_and_named(project: Toy, harness: Harness) -> None:
    new = policy(project, HEAD + STEP + GATES.replace("margin = 0.15", "margin = 2.0"))
    assert "new.toml:" in harness("gate", "--policy", new).error
    assert "margin is 2.0" in harness("gate", "--policy", new).error


def test_evidence_that_was_changed_is_refused(project: Toy, harness: Harness) -> None:
    new = policy(project, HEAD + STEP + GATES)
    qrels = project.layout.data / "qrels.trec"
    qrels.write_text(qrels.read_text() + "q00 0 d01 1\n")
    assert "qrels.trec: was changed since" in harness("gate", "--policy", new).error


def test_arms_that_were_never_compared_are_left_open(project: Toy, harness: Harness) -> None:
    new = policy(project, HEAD + STEP.replace('"fts5"', '"hash-hybrid"') + GATES)
    said = harness("gate", "--policy", new)
    assert said.code == 3
    assert "evidence of tantivy against hash-hybrid is missing" in said.out


def test_a_named_step_decides_alone(project: Toy, harness: Harness) -> None:
    later = STEP.replace('name = "tantivy"', 'name = "again"')
    new = policy(project, HEAD + STEP + GATES + later + FAILS)
    assert harness("gate", "--policy", new).code == 1
    assert harness("gate", "--policy", new, "--step", "tantivy").code == 0
    assert "no step named 'none'" in harness("gate", "--policy", new, "--step", "none").error


def test_what_harness_run_left_is_decided_anew(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", CONTROL)
    assert harness(*words, "--out", left).code == 0
    new = policy(project, HEAD + STEP + FAILS)
    said = harness("gate", "--policy", new, "--from", left, "--control", CONTROL)
    assert said.code == 1
    assert "tantivy    HOLD  fts5 -> tantivy" in said.out
    assert (
        "only fts5, tantivy"
        in harness("gate", "--policy", new, "--from", left, "--control", "none").error
    )
    (one,) = decide_again(
        project.layout, load_policy(new), Path(new), control="", now=datetime.now(UTC)
    )
    assert one.outcome is Outcome.HOLD


def test_the_worst_code_is_the_commands() -> None:
    assert [worst(codes) for codes in ([0, 3, 1], [0, 3], [0, 0])] == [1, 3, 0]
