"""Arms under load against each other: ratios round by round, and the noise that they stand in.

In a round every arm, and a second opening of the control, get the same arrivals one after the
other. A slow hour of the machine falls on whole rounds, so ratios are taken within a round and
their median over rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.core.scores import Estimate


class Noise(NamedTuple):
    """Whether the A/A run of an arm repeats well enough to compare others by."""

    verdict: Verdict
    """PASS or INCONCLUSIVE; noise never fails an engine."""
    ratios: tuple[float, ...]
    """Second opening over first, one a round."""
    reason: str


def noise(first_ns: Sequence[int], second_ns: Sequence[int], *, max_noise: float) -> Noise:
    """Hold a percentile of two openings of one arm against each other, round by round (A/A).

    Raises:
        EvidenceError: the rounds are not the same, there are none, or a time is not above 0.
    """
    found = ratios(second_ns, first_ns)
    most = max(max(one, 1 / one) for one in found)
    quiet = most <= max_noise
    return Noise(
        Verdict.PASS if quiet else Verdict.INCONCLUSIVE,
        found,
        f"the first arm's p99 is up to {most:.3g} times as long in one of its openings as in the"
        f" other, over {len(found)} rounds, and {max_noise:g} times is allowed",
    )


def ratios(above_ns: Sequence[int], below_ns: Sequence[int]) -> tuple[float, ...]:
    """Divide round by round.

    Raises:
        EvidenceError: the rounds are not the same, there are none, or a time is not above 0.
    """
    if len(above_ns) != len(below_ns) or not above_ns:
        raise EvidenceError(
            f"{len(above_ns)} rounds cannot be compared with {len(below_ns)}; load both arms alike"
        )
    if min(*above_ns, *below_ns) <= 0:
        raise EvidenceError("a time is not above 0: a clock stood still")
    return tuple(above / below for above, below in zip(above_ns, below_ns, strict=True))


def median_of(values: Sequence[float], *, confidence: float) -> Estimate | None:
    """Median with its order-statistic interval; None where there are too few for one.

    How many of n lie below the median is binomial with an even chance, which makes two of them
    the ends (Conover, "Practical Nonparametric Statistics", 3rd ed., section 3.2).
    """
    count = len(values)
    tail = (1 - confidence) / 2
    chance = bdtr(np.arange(max(count, 1), dtype=np.float64), count, 0.5)
    low = int((chance <= tail).sum()) - 1
    if low < 0:
        return None
    ordered = sorted(values)
    return Estimate(float(np.median(ordered)), ordered[low], ordered[count - 1 - low], count)


def fewest_rounds(confidence: float) -> int:
    """Count the rounds of which a median has an interval: the largest must be above it surely."""
    return math.ceil(math.log2(2 / (1 - confidence)))
