"""A gate's interval against its bound, each on a scale of its own: the bound is 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from harness.core.gate import Finding
from harness.gates.base.rules import Where
from harness.policy.model import Policy

BEYOND = 1.1
"""Where an end is drawn that is infinite; the furthest finite one lies at 1 or -1."""
EDGE = 1.2
"""Where a drawing ends."""


class Bar(NamedTuple):
    """Ends and value, in multiples of the furthest distance from the bound."""

    low: float
    value: float
    high: float


def bar(finding: Finding) -> Bar | None:
    """Place a finding against its bound; None where there is not a finite number or no bound."""
    estimate, limit = finding.estimate, finding.limit
    if estimate is None or limit is None or not math.isfinite(estimate.value):
        return None
    ends = [end for end in (estimate.low, estimate.value, estimate.high) if math.isfinite(end)]
    scale = max(abs(end - limit) for end in ends) or 1.0

    def placed(end: float) -> float:
        return (end - limit) / scale if math.isfinite(end) else math.copysign(BEYOND, end)

    return Bar(placed(estimate.low), placed(estimate.value), placed(estimate.high))


def allowed(finding: Finding, passes: Where | None) -> tuple[float, float] | None:
    """Place the side of the bound on which an interval passes, on the scale of ``bar``.

    It ends at the edges of the drawing. None where no bar is drawn, or no side alone passes.
    """
    placed, limit = bar(finding), finding.limit
    if placed is None or limit is None or passes is None or finding.estimate is None:
        return None
    if passes == "above":
        return 0.0, EDGE
    if passes == "below" or not placed.value:
        return -EDGE, 0.0
    scale = (finding.estimate.value - limit) / placed.value
    return max(-EDGE, -2 * limit / scale), 0.0


def sides(policy: Policy | None, step: str) -> Mapping[str, Where | None]:
    """Give the side on which each gate of a step passes, by the gate's name."""
    steps = policy.steps if policy else ()
    return {
        gate.name: gate.settings.passes for one in steps if one.name == step for gate in one.gates
    }
