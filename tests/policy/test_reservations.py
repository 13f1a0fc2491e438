"""What holds a step beside its gates is a finding of its own, and is no gate of the policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.gate import Cause, Outcome
from harness.policy.decision import decide, not_as_pinned, over_budget
from harness.policy.load import load_policy
from harness.policy.looks import Looks
from harness.policy.model import Policy
from tests.make.held import held_to
from tests.make.toy import GATES, HEAD, STEP
from tests.policy.test_decide import NOW

DRIFT = not_as_pinned(["1 query added (b)"], pinned_at="2026-03-01", again="harness policy pin p")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    later = STEP.replace('name = "tantivy"', 'name = "later"')
    path = tmp_path / "p.toml"
    path.write_text(HEAD + STEP + GATES + later + GATES)
    return load_policy(path)


def test_every_step_has_it_and_the_policy_is_still_kept(policy: Policy) -> None:
    decisions = decide(policy, {}, now=NOW, reservations=[DRIFT])
    held_to(policy, decisions)
    for step, decision in zip(policy.steps, decisions, strict=True):
        assert decision.findings[-1] == DRIFT
        assert [found.gate for found in decision.findings[:-1]] == [
            gate.name for gate in step.gates
        ]
        assert decision.outcome is Outcome.HOLD
    assert DRIFT.cause is Cause.PINNED
    assert DRIFT.reason == "since the pin of 2026-03-01: 1 query added (b)"


def spent(by: float, attempts: int = 1) -> Looks:
    return Looks(attempts, 0, 0, by, (), ())


def test_attempts_within_the_budget_hold_nothing(policy: Policy) -> None:
    assert policy.alpha == pytest.approx(0.25)
    assert over_budget(policy, {"tantivy": spent(policy.alpha)}) == {}


def test_attempts_beyond_the_budget_hold_the_step_and_no_other(policy: Policy) -> None:
    beyond = over_budget(policy, {"tantivy": spent(0.275, 11), "later": spent(0.025)})
    (finding,) = beyond.values()
    assert "attempt 11 and 10 were planned" in finding.reason
    assert "0.275, and the budget is 0.25" in finding.reason
    assert finding.cause is Cause.BUDGET
    assert finding.timed
    first, second = decide(policy, {}, now=NOW, spent=beyond)
    assert first.findings[-1] == finding
    assert finding not in second.findings


def test_a_policy_that_declares_its_attempts_counts_none(policy: Policy) -> None:
    declared = replace(policy, declared="a clone keeps no log")
    assert over_budget(declared, {"tantivy": spent(0.9, 99)}) == {}
