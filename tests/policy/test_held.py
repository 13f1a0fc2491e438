"""A decision is of its policy, and each PASS lies where its rule passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import StepDecision
from harness.core.scores import Estimate
from harness.gates.base import rules
from harness.gates.base.rules import GateSettings
from tests.make.held import held_to
from tests.make.toy import Toy


@pytest.mark.slow
def test_what_a_project_decides_is_held(project: Toy) -> None:
    policy, decision = project.project.policy(), project.decide()
    held_to(policy, [decision])
    for spoilt in (
        replace(decision, findings=decision.findings[1:]),
        replace(decision, control="x"),
        _passing(decision, Estimate(-0.25, -0.3, -0.2, 41)),
        _passing(decision, Estimate(0.05, 0.0, 0.1, 19)),
    ):
        with pytest.raises(EvidenceError):
            held_to(policy, [spoilt])


def _passing(decision: StepDecision, estimate: Estimate) -> StepDecision:
    """Let the gate on quality pass by another interval."""
    return replace(
        decision,
        findings=tuple(
            replace(one, estimate=estimate) if one.gate == "Quality" else one
            for one in decision.findings
        ),
    )


def test_every_rule_with_a_limit_says_on_which_side_it_passes() -> None:
    settings = {name: rules.load(name).settings for name in rules.names()}
    limited = {name for name, of in settings.items() if {"limit", "bounded_by"} & written(of)}
    silent = {name for name in limited if "passes" not in written(settings[name])}
    assert silent == set()
    assert len(limited) > 10


def written(settings: type[GateSettings]) -> set[str]:
    """Name what a rule writes itself, or takes from what rules of its kind share."""
    own = [of for of in settings.__mro__ if issubclass(of, GateSettings) and of is not GateSettings]
    return {name for of in own for name in vars(of)}
