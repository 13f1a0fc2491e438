"""A decision is held to the policy that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Finding, StepDecision, Verdict
from harness.policy.load import load_policy
from harness.policy.model import Policy
from harness.stages.held import held_to
from tests.toy import Toy


@pytest.fixture
def policy(measured: Toy) -> Policy:
    return load_policy(measured.root / "policy" / "toy.toml")


def decided(policy: Policy) -> StepDecision:
    """Let all gates of the policy pass."""
    (step,) = policy.steps
    findings = tuple(
        gate.settings.finding(gate.name, Verdict.PASS, "it is so") for gate in step.gates
    )
    return StepDecision(step.name, step.control, step.candidate, step.taken, findings)


def changed(decision: StepDecision, gate: str, **fields: Any) -> StepDecision:  # noqa: ANN401
    def one(finding: Finding) -> Finding:
        return replace(finding, **fields) if finding.gate == gate else finding

    return replace(decision, findings=tuple(map(one, decision.findings)))


def test_a_decision_of_the_policy_is_held(policy: Policy) -> None:
    held_to(policy, [decided(policy)])


def test_ten_digits_of_a_bound_are_enough(policy: Policy) -> None:
    held_to(policy, [changed(decided(policy), "Quality", limit=-0.1000000000001)])


@pytest.mark.parametrize(
    ("gate", "fields"),
    [
        ("Quality", {"limit": -0.2}),
        ("Quality", {"limit": None}),
        ("Quality", {"bound": "loses less than 0.2 of nDCG@10"}),
        ("Quality", {"rule": "superior"}),
        ("Overlap", {"limit": 0.5}),
        ("Speed", {"limit": 51.0}),
    ],
)
def test_a_looser_gate_is_named(policy: Policy, gate: str, fields: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match=f"the gate '{gate}' of step tantivy was judged by"):
        held_to(policy, [changed(decided(policy), gate, **fields)])


def test_a_gate_that_was_left_out_is_named(policy: Policy) -> None:
    whole = decided(policy)
    with pytest.raises(EvidenceError, match="the step tantivy has the gates"):
        held_to(policy, [replace(whole, findings=whole.findings[1:])])


@pytest.mark.parametrize("fields", [{"control": "x"}, {"candidate": "x"}, {"taken": True}])
def test_a_decision_about_other_arms_is_refused(policy: Policy, fields: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match="toy migration has the steps"):
        held_to(policy, [replace(decided(policy), **fields)])


def test_a_step_that_was_not_decided_is_missed(policy: Policy) -> None:
    with pytest.raises(EvidenceError, match="has the steps"):
        held_to(policy, [])
