"""A decision is held to the policy it names: every gate, under the bound that is written there."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.errors import EvidenceError
from harness.core.gate import Finding, StepDecision, Verdict
from harness.policy.model import Gate, Policy

DIGITS = 9
"""``decision.json`` keeps ten significant digits."""
LOOKS_FOR_HARM = "no_slice_harmed"
"""The one rule that passes where harm was not shown; all others must show the opposite."""


def held_to(policy: Policy, decisions: Sequence[StepDecision]) -> None:
    """Compare what was decided with what the policy asks for.

    Raises:
        EvidenceError: a step or a gate is missing, is about other arms, was judged by another
            rule or under another bound, or passed although its own interval reaches over the
            bound.
    """
    steps = [(step.name, step.control, step.candidate, step.taken) for step in policy.steps]
    decided = [(one.step, one.control, one.candidate, one.taken) for one in decisions]
    if steps != decided:
        raise EvidenceError(
            f"the policy {policy.name} has the steps {steps}, decided were {decided}; judge again"
        )
    for step, decision in zip(policy.steps, decisions, strict=True):
        asked = [gate.name for gate in step.gates]
        judged = [finding.gate for finding in decision.findings]
        if asked != judged:
            raise EvidenceError(
                f"the step {step.name} has the gates {asked}, judged were {judged}; judge again"
            )
        for gate, finding in zip(step.gates, decision.findings, strict=True):
            _same_bound(step.name, gate, finding)
            _sure(step.name, finding)


def _same_bound(step: str, gate: Gate, finding: Finding) -> None:
    asked = gate.rule.name, gate.settings.bound, _rounded(gate.settings.limit)
    judged = finding.rule, finding.bound, _rounded(finding.limit)
    if asked != judged:
        raise EvidenceError(
            f"the gate {gate.name!r} of step {step} was judged by {judged[0]} ({judged[1]}), but"
            f" the policy asks for {asked[0]} ({asked[1]}); judge again by the policy"
        )


def _sure(step: str, finding: Finding) -> None:
    found, limit = finding.estimate, finding.limit
    if finding.verdict is not Verdict.PASS or found is None or limit is None:
        return
    if found.low < limit < found.high and finding.rule != LOOKS_FOR_HARM:
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed, but its interval [{found.low:g},"
            f" {found.high:g}] reaches over the bound {limit:g} ({finding.bound}); mend the rule"
            f" {finding.rule}"
        )


def _rounded(limit: float | None) -> str | None:
    return None if limit is None else f"{limit:.{DIGITS}g}"
