"""What holds a step beside its gates is a finding of its own, and is no gate of the policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.gate import Cause, Outcome
from harness.policy.decide import decide
from harness.policy.load import load_policy
from harness.policy.model import Policy
from harness.policy.reservations import not_as_pinned, of_gates, over_budget
from harness.stages.custody.policy_match import held_to
from tests.make.toy import GATES, HEAD, STEP
from tests.policy.test_decide import NOW

DRIFT = not_as_pinned(["1 query added (b)"], pinned_at="2026-03-01", again="harness policy pin p")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    later = STEP.replace('name = "tantivy"', 'name = "later"')
    path = tmp_path / "p.toml"
    path.write_text(HEAD + "alpha = 0.05\n" + STEP + GATES + later + GATES)
    return load_policy(path)


def test_every_step_has_it_and_the_policy_is_still_kept(policy: Policy) -> None:
    decisions = decide(policy, {}, now=NOW, reservations=[DRIFT])
    held_to(policy, decisions)
    for step, decision in zip(policy.steps, decisions, strict=True):
        assert decision.findings[-1] == DRIFT
        assert [found.gate for found in of_gates(decision)] == [gate.name for gate in step.gates]
        assert decision.outcome is Outcome.HOLD
    assert DRIFT.cause is Cause.PINNED
    assert DRIFT.reason == "since the pin of 2026-03-01: 1 query added (b)"


def test_looks_within_the_budget_hold_nothing(policy: Policy) -> None:
    assert over_budget(policy) is None
    assert over_budget(policy.seen({"tantivy": 2})) is None


def test_looks_beyond_the_budget_are_told_with_their_price(policy: Policy) -> None:
    finding = over_budget(policy.seen({"tantivy": 3, "later": 1}))
    assert finding is not None
    assert "tantivy 3; together they may promote wrongly with 0.075, more than" in finding.reason
    assert finding.cause is Cause.BUDGET
    assert finding.timed
    assert over_budget(replace(policy.seen({"tantivy": 9}), alpha=None)) is None


def test_looks_made_elsewhere_are_not_forgotten(policy: Policy) -> None:
    declared = replace(policy, steps=(replace(policy.steps[0], attempts=4), *policy.steps[1:]))
    assert [step.attempts for step in declared.seen({"tantivy": 2, "later": 2}).steps] == [4, 2]
