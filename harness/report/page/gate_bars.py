"""A gate's interval against its bound, each on a scale of its own: the bound is 0."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.core.gate import Finding

BEYOND = 1.1
"""Where an end is drawn that is infinite; the furthest finite one lies at 1 or -1."""


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
