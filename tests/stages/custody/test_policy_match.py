"""A decision is held to the policy that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.gates.base import rules
from harness.gates.base.rules import GateSettings
from harness.policy.load import load_policy
from harness.policy.model import Policy
from harness.stages.custody.pins import held_to
from tests.make.toy import Toy


@pytest.fixture
def policy(measured: Toy) -> Policy:
    return load_policy(measured.root / "policy" / "toy.toml")


def right(settings: GateSettings) -> Estimate | None:
    """Give an interval on the side where the rule passes, of as many queries as it asks for."""
    if settings.limit is None:
        return None
    beside = {"above": 0.1, "below": -0.1, "within": -settings.limit, None: 0.0}
    at = settings.limit + beside[settings.passes]
    return Estimate(at, at, at, max(settings.required_queries, 2))


def decided(policy: Policy) -> StepDecision:
    """Let all gates of the policy pass."""
    (step,) = policy.steps
    findings = tuple(
        gate.settings.finding(gate.name, Verdict.PASS, "it is so", estimate=right(gate.settings))
        for gate in step.gates
    )
    return StepDecision(step.name, step.control, step.candidate, step.taken, findings)


def changed(decision: StepDecision, gate: str, **fields: Any) -> StepDecision:  # noqa: ANN401
    def one(finding: Finding) -> Finding:
        return replace(finding, **fields) if finding.gate == gate else finding

    return replace(decision, findings=tuple(map(one, decision.findings)))


def test_a_decision_of_the_policy_is_held(policy: Policy) -> None:
    held_to(policy, [decided(policy)])


def test_ten_digits_of_a_bound_are_enough(policy: Policy) -> None:
    held_to(policy, [changed(decided(policy), "Quality", limit=-0.1500000000001)])


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


def between(low: float, high: float, n: int = 41) -> Estimate:
    return Estimate((low + high) / 2, low, high, n)


@pytest.mark.parametrize(
    ("gate", "estimate", "says"),
    [
        ("Quality", between(-0.3, -0.2), r"\[-0\.3, -0\.2\] lies beyond the bound -0\.1"),
        ("Quality", between(-0.2, 0.2), "reaches over the bound -0.1"),
        ("Quality", between(-0.2, -0.1), "reaches over the bound -0.1"),
        ("Quality", None, "passed and measured nothing"),
        ("Answers", between(0.2, 0.3), "lies beyond the bound 0.15"),
        ("Overlap", between(0.1, 0.2), "lies beyond the bound 0.6"),
        ("Speed", between(60, 70), "lies beyond the bound 50"),
        ("Speed", between(40, 70), "reaches over the bound 50"),
        ("Quality", between(0, 0.1, 19), "passed on 19 queries, before the 20 that"),
    ],
)
def test_a_pass_without_its_numbers_is_refused(
    policy: Policy, gate: str, estimate: Estimate | None, says: str
) -> None:
    with pytest.raises(EvidenceError, match=f"the gate '{gate}' of step tantivy .*{says}"):
        held_to(policy, [changed(decided(policy), gate, estimate=estimate)])


def test_an_end_that_lies_on_the_bound_but_for_the_last_digit_is_not_refused(
    policy: Policy,
) -> None:
    touching = between(-0.1 - 1e-11, 0.1)
    held_to(policy, [changed(decided(policy), "Quality", estimate=touching)])


def test_what_did_not_pass_may_lie_anywhere(policy: Policy) -> None:
    fields: dict[str, Any] = {"verdict": Verdict.FAIL, "cause": Cause.BROKEN}
    fields["estimate"] = between(-0.3, -0.2)
    held_to(policy, [changed(decided(policy), "Quality", **fields)])


def test_every_rule_with_a_limit_says_on_which_side_it_passes() -> None:
    settings = {name: rules.load(name).settings for name in rules.names()}
    limited = {name for name, of in settings.items() if "limit" in written(of)}
    silent = {name for name in limited if "passes" not in written(settings[name])}
    assert silent == set()
    assert len(limited) > 10


def written(settings: type[GateSettings]) -> set[str]:
    """Name what a rule writes itself, or takes from what rules of its kind share."""
    own = [of for of in settings.__mro__ if issubclass(of, GateSettings) and of is not GateSettings]
    return {name for of in own for name in vars(of)}
