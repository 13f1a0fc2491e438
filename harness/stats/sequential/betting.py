"""Confidence sequences of a mean of live traffic, valid at every look.

The hedged capital process of Waudby-Smith and Ramdas, "Estimating means of bounded random variables
by betting", JRSS B 86 (2024), section 4.4. For each mean that could be the true one, two gamblers
bet against it, one that it is too low and one that it is too high. Against the true mean no bet is
expected to win. By Ville's inequality the probability that the capital of either ever reaches 2 /
alpha is at most alpha / 2. Means with such a capital are excluded.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import log1p
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate

MOST = 0.75
"""Share of the capital that a bet may lose; section 4.4 of the paper has 1/2 or 3/4."""
STEPS = 1_000
"""Steps into which the range is cut; an end lies at most one step outside the exact one."""

Floats = NDArray[np.float64]


class Stakes:
    """The next bets, for one stream of values or many side by side.

    Predictable plug-in bets, equation 26 of the paper: they use past values only.
    """

    def __init__(self, confidence: float, streams: int) -> None:
        self.wealth = 2 / (1 - confidence)
        self._reach = 2 * math.log(self.wealth)
        self._count = 0
        self._sum = np.full(streams, 0.5)
        self._squares = np.full(streams, 0.25)

    def next(self) -> Floats:
        """Give the bet on the value that comes next, before any cut; shape (streams,)."""
        at = self._count + 1
        spread = self._squares / at
        return np.sqrt(self._reach / (spread * at * math.log1p(at)))

    def learn(self, values: Floats) -> None:
        """Update with the new values, each between 0 and 1; shape (streams,)."""
        self._count += 1
        self._sum += values
        self._squares += (values - self._sum / (self._count + 1)) ** 2


def gains(stake: Floats, values: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Logarithm of what the bets that the mean is higher, and lower, than ``means`` make of 1.

    Shapes are those of ``values`` and ``means`` together. No bet can lose more than ``MOST``.
    """
    with np.errstate(divide="ignore"):
        higher = np.minimum(stake, MOST / means)
        lower = np.minimum(stake, MOST / (1 - means))
    ahead = values - means
    return log1p(higher * ahead), log1p(-lower * ahead)


def check_range(confidence: float, least: float, most: float) -> None:
    """Check the range and the confidence of a sequence.

    Raises:
        EvidenceError: the range is empty, or the confidence does not lie between 0 and 1.
    """
    if not (least < most and 0 < confidence < 1):
        raise EvidenceError(
            f"no sequence over [{least}, {most}] at confidence {confidence}; the range must have a"
            " width and the confidence lie between 0 and 1"
        )


class BettingSequence:
    """A confidence sequence of the mean of values between ``least`` and ``most``.

    The intervals of all times together hold the true mean with the given confidence, so each may be
    read, and acted upon, at any time. Values may depend on those before them, but the expected next
    mean must not change. ``low`` alone, or ``high`` alone, has half the error rate.

    Raises:
        EvidenceError: the range is empty, or the confidence does not lie between 0 and 1.
    """

    def __init__(self, *, confidence: float, least: float, most: float) -> None:
        check_range(confidence, least, most)
        self._least, self._width = least, most - least
        self._stakes = Stakes(confidence, streams=1)
        self._means = np.linspace(0, 1, STEPS + 1)
        self._higher, self._lower = np.zeros(STEPS + 1), np.zeros(STEPS + 1)
        self._first, self._last = 0, STEPS
        self._sum = 0.0
        self._count = 0

    def update(self, value: float) -> None:
        """Take one value.

        Raises:
            EvidenceError: the value lies outside the range, or is not a number.
        """
        unit = (value - self._least) / self._width
        if not 0 <= unit <= 1:
            raise EvidenceError(
                f"a value of {value} lies outside [{self._least},"
                f" {self._least + self._width}]; give the range that values can have"
            )
        seen = np.array([unit])
        higher, lower = gains(self._stakes.next(), seen, self._means)
        self._higher += higher
        self._lower += lower
        self._stakes.learn(seen)
        self._sum += value
        self._count += 1
        ruin = math.log(self._stakes.wealth)
        too_low = int(np.searchsorted(-self._higher, -ruin, side="right"))
        too_high = int(np.searchsorted(self._lower, ruin, side="left"))
        self._first = max(self._first, too_low - 1)
        self._last = min(self._last, too_high)

    def interval(self) -> Estimate:
        """Mean of the values so far, with its interval: the means that are not excluded.

        Raises:
            EvidenceError: no value was given yet.
        """
        if not self._count:
            raise EvidenceError("no value came yet; ask for an interval after the first")
        low, high = (
            self._least + self._width * self._means[at] for at in (self._first, self._last)
        )
        return Estimate(self._sum / self._count, float(low), float(high), self._count)
