"""What holds of any decision: it is of its policy, and a PASS lies where its rule passes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.core.errors import EvidenceError
from harness.core.gate import Finding, StepDecision, Verdict
from harness.core.printable import many
from harness.policy.decision import BUDGET, PINNED, PREMISES, TUNED
from harness.policy.model import Gate, Policy

RESERVATIONS = frozenset({PINNED, BUDGET, TUNED, PREMISES})
DIGITS = 9
"""``decision.json`` keeps ten significant digits."""
TOUCH = 10**-DIGITS
"""An end of an interval as near as this to its bound, in parts of it, lies on it."""


def held_to(policy: Policy, decisions: Sequence[StepDecision]) -> None:
    """Compare what was decided with what the policy asks for.

    Raises:
        EvidenceError: a step or a gate is missing, is about other arms, or was judged by another
            rule or under another bound. Or it passed although its own interval reaches over the
            bound or lies beyond it, or on fewer queries than the policy asks for.
    """
    steps = [(step.name, step.control, step.candidate, step.taken) for step in policy.steps]
    decided = [(one.step, one.control, one.candidate, one.taken) for one in decisions]
    if steps != decided:
        raise EvidenceError(
            f"the policy {policy.name} has the steps {steps}, decided were {decided}; judge again"
        )
    for step, decision in zip(policy.steps, decisions, strict=True):
        asked = [gate.name for gate in step.gates]
        findings = [one for one in decision.findings if one.rule not in RESERVATIONS]
        judged = [finding.gate for finding in findings]
        if asked != judged:
            raise EvidenceError(
                f"the step {step.name} has the gates {asked}, judged were {judged}; judge again"
            )
        for gate, finding in zip(step.gates, findings, strict=True):
            _same_bound(step.name, gate, finding)
            if finding.verdict is Verdict.PASS:
                _sure(step.name, gate, finding)
                _enough(step.name, gate, finding)


def _same_bound(step: str, gate: Gate, finding: Finding) -> None:
    asked = gate.rule.name, gate.settings.bound, _rounded(gate.settings.limit)
    judged = finding.rule, finding.bound, _rounded(finding.limit)
    if asked != judged:
        raise EvidenceError(
            f"the gate {gate.name!r} of step {step} was judged by {judged[0]} ({judged[1]}), but"
            f" the policy asks for {asked[0]} ({asked[1]}); judge again by the policy"
        )


def _sure(step: str, gate: Gate, finding: Finding) -> None:
    """Check a PASS against its own interval: it must lie on the side where the rule passes."""
    found, limit, side = finding.estimate, finding.limit, gate.settings.passes
    if side is None or limit is None:
        return
    if found is None:
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed and measured nothing"
            f" ({finding.bound}); fix the rule {finding.rule}"
        )
    touch = TOUCH * max(1.0, abs(limit))
    floor = {"above": limit, "below": -math.inf, "within": -limit}[side] - touch
    ceiling = {"above": math.inf, "below": limit, "within": limit}[side] + touch
    if not floor <= found.low <= found.high <= ceiling:
        wholly = found.high < floor or found.low > ceiling
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed, but its interval [{found.low:g},"
            f" {found.high:g}] {'lies beyond' if wholly else 'reaches over'} the bound {limit:g}"
            f" ({finding.bound}); fix the rule {finding.rule}"
        )


def _enough(step: str, gate: Gate, finding: Finding) -> None:
    """Check a PASS against the evidence that the policy waits for."""
    found, required = finding.estimate, gate.settings.required_queries
    if found is not None and found.n < required:
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed on {many(found.n, 'query')}, before"
            f" the {required} that the policy waits for were there; fix the rule {finding.rule}"
        )


def _rounded(limit: float | None) -> str | None:
    return None if limit is None else f"{limit:.{DIGITS}g}"
