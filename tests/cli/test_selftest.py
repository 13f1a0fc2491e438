"""``harness selftest``: how often the policy's gates pass where the truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Harness
from tests.make.toy import CONTROL, GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
FEW = ("--trials", "40")


def test_the_worst_rate_is_said_first_with_what_it_rests_on(project: Toy, harness: Harness) -> None:
    before = {path for path in project.root.rglob("*") if path.is_file()}
    said = harness("selftest", "--dataset", NAME, *FEW)
    assert said.code == 0, said
    assert "Worst false promotion: " in said.out
    assert "2.50% allowed" in said.out
    assert "tantivy: Quality" in said.out
    assert "no difference" in said.out
    assert "Computed twice: 492 values, the second time by ir-measures." in said.out
    assert harness("selftest", *FEW).out == said.out
    assert {path for path in project.root.rglob("*") if path.is_file()} == before


def test_a_control_that_is_named_chooses_the_steps(project: Toy, harness: Harness) -> None:
    assert "tantivy: Quality" in harness("selftest", *FEW, "--control", CONTROL).out
    said = harness("selftest", *FEW, "--control", "none")
    assert "no control of a comparison named 'none'; there is fts5" in said.error
    later = STEP.replace('"tantivy"', '"hash-hybrid"')
    project.policy(HEAD + STEP + GATES + later + GATES)
    project.judge_again()
    assert "hash-hybrid:" in harness("selftest", *FEW, "--control", CONTROL).out
    two = (project.root / "policy" / "toy.toml").read_text().replace('"fts5"', '"tantivy"')
    project.policy(two.replace('candidate = "tantivy"', 'candidate = "fts5"'))
    assert "no control of a step named" in harness("selftest", *FEW, "--control", CONTROL).error


def test_what_harness_run_left_is_tried_too(project: Toy, harness: Harness, tmp_path: Path) -> None:
    left = tmp_path / "left"
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", CONTROL)
    assert harness(*words, "--out", left).code == 0
    policy = project.root / "policy" / "pairwise.toml"
    said = harness("selftest", "--from", left, "--policy", policy, "--control", CONTROL, *FEW)
    assert said.code == 0, said
    assert "tantivy: Quality" in said.out


def test_a_policy_without_gates_on_means_says_so(project: Toy, harness: Harness) -> None:
    project.policy(HEAD + STEP + '[[step.gate]]\nname = "Who"\nrule = "identity"\n')
    assert "No gate on means has enough queries" in harness("selftest", *FEW).out
