"""Arms under load against each other, and the highest rate within a budget."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.core.gate import Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.stats.times import order_ends


class RepeatNoise(NamedTuple):
    """Whether the A/A run of an arm repeats well enough to compare others by."""

    verdict: Verdict
    """PASS or INCONCLUSIVE; noise never fails an engine."""
    reason: str


def noise(ratios: Sequence[float], *, max_noise: float) -> RepeatNoise:
    """Judge two openings of one arm (A/A) by a percentile of the second over that of the first."""
    most = max(max(one, 1 / one) for one in ratios)
    quiet = most <= max_noise
    return RepeatNoise(
        Verdict.PASS if quiet else Verdict.INCONCLUSIVE,
        f"the first arm's p99 is up to {most:.3g} times as long in one of its openings as in the"
        f" other, over {len(ratios)} rounds, and {max_noise:g} times is allowed",
    )


def median_of(values: Sequence[float], *, confidence: float) -> Estimate | None:
    """Median with its order-statistic interval; None where there are too few for one."""
    each = np.array([values], dtype=np.float64)
    low, high = order_ends(each, 50, (1 - confidence) / 2)
    return Estimate(float(np.median(each)), low, high, len(values)) if low else None


def fewest_rounds(confidence: float) -> int:
    """Count the rounds of which a median has an interval: the largest must be above it surely."""
    return math.ceil(math.log2(2 / (1 - confidence)))


TRIES = 4
"""How often an end may move outward before the machine is called too noisy."""

Probe = Callable[[float], bool | None]
"""Runs one trial at a rate: whether it kept the budget, or None where it says nothing."""


@dataclass(frozen=True, slots=True)
class Highest:
    """What was found."""

    verdict: Verdict
    """PASS: a rate with its interval. FAIL: no rate keeps the budget. INCONCLUSIVE: too noisy."""
    reason: str
    estimate: Estimate | None
    """Queries a second; ``n`` counts all trials."""
    tried: tuple[tuple[float, bool | None], ...]
    """Every rate in the order of the trials, and whether it was kept."""


class _NoRateError(Exception):
    """The search ends without a rate: by which verdict, and why."""


def trials_an_end(confidence: float) -> int:
    """Trials that must agree at either end of the interval."""
    return math.ceil(math.log2(2 * TRIES / (1 - confidence)))


def highest_rate(
    probe: Probe,
    *,
    capacity: float,
    floor: float,
    resolution: float,
    confidence: float,
    retries: int,
) -> Highest:
    """Search below and above ``capacity``, the rate of a closed loop with the same workers.

    ``floor`` is the lowest rate at which a trial is long enough to say anything. ``resolution`` is
    the ratio of the two ends at which bisection stops, above 1. A trial that
    says nothing is run again ``retries`` times.
    """
    tried: list[tuple[float, bool | None]] = []
    agree = trials_an_end(confidence)

    def kept(rate: float) -> bool:
        for _ in range(1 + retries):
            said = probe(rate)
            tried.append((rate, said))
            if said is not None:
                return said
        raise _NoRateError(
            Verdict.INCONCLUSIVE,
            f"{many(retries + 1, 'trial')} in a row at {rate:.4g} a second said nothing: the"
            " generator could not keep its schedule",
        )

    def confirmed(rate: float, step: float, *, is_kept: bool) -> float:
        """Move outward until all trials agree."""
        for _ in range(TRIES):
            if rate < floor:
                break
            if all(kept(rate) is is_kept for _ in range(agree)):
                return rate
            rate *= step
        raise _NoRateError(
            Verdict.INCONCLUSIVE,
            f"near {value:.4g} queries a second trials do not agree, and neither do they"
            f" up to {TRIES} steps of {resolution:g} away: the machine is too noisy",
        )

    try:
        low, high = _bracket(kept, capacity, floor)
        while high / low > resolution:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if kept(middle) else (low, middle)
        value = math.sqrt(low * high)
        below = confirmed(low, 1 / resolution, is_kept=True)
        above = confirmed(high, resolution, is_kept=False)
    except _NoRateError as exc:
        verdict, reason = exc.args
        return Highest(verdict, reason, None, tuple(tried))
    reason = (
        f"{below:.4g} a second were kept by {agree} of {agree} trials,"
        f" {above:.4g} by none of {agree}"
    )
    estimate = Estimate(value, below, above, len(tried))
    return Highest(Verdict.PASS, reason, estimate, tuple(tried))


def _bracket(kept: Callable[[float], bool], capacity: float, floor: float) -> tuple[float, float]:
    """Find a rate that is kept and a higher one that is not."""
    low = capacity / 2
    if low < floor:
        raise _NoRateError(
            Verdict.INCONCLUSIVE,
            f"a closed loop asked {capacity:.4g} a second, too few for trials of this length:"
            f" they say something from {floor:.4g} a second on. Make them longer",
        )
    while not kept(low):
        if low == floor:
            reason = f"even {low:.4g} queries a second miss the budget"
            raise _NoRateError(Verdict.FAIL, reason)
        low = max(low / 4, floor)
    high = capacity
    for _ in range(6):  # twice the rate, to find one that misses
        if not kept(high):
            return low, high
        low, high = high, high * 2
    raise _NoRateError(
        Verdict.INCONCLUSIVE,
        f"{low:.4g} queries a second keep the budget, far more than the {capacity:.4g}"
        " that a closed loop reached: it was disturbed, or the budget is a very long one",
    )
