"""The median of ratios of times, with bounds that may be looked at after every pair.

A ratio of times has no largest value, so its mean cannot be bounded by bets. Its median can: for
each ratio r of a grid, two gamblers bet on whether the next ratio is at most r. If the median lies
above r, that happens at most half the time; a gambler who gets rich on "less than half" has shown
it. The idea is of Howard and Ramdas, "Sequential estimation of quantiles with applications to A/B
testing and best-arm identification", Bernoulli 28 (2022); the bets are those of
``harness.stats.sequential.betting``. Only an unbroken row of rich gamblers from the end of the grid
moves that end. So all of them together err with the chance of the one at the median, alpha / 2 a
side.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.sequential.betting import Stakes, gains

WIDEST = 64.0
"""Largest ratio of the grid; its inverse is the smallest. Beyond it an end is unbounded."""
STEP = 1.01
"""From one ratio of the grid to the next; an end lies at most one step outside the exact one."""
HALF = np.array([0.5])


class MedianRatio:
    """A confidence sequence of the median of candidate / control, over pairs of times.

    Raises:
        EvidenceError: the confidence does not lie between 0 and 1.
    """

    def __init__(self, *, confidence: float) -> None:
        if not 0 < confidence < 1:
            raise EvidenceError(f"no sequence at confidence {confidence}; give one between 0 and 1")
        reach = math.ceil(math.log(WIDEST) / math.log(STEP))
        self._grid: NDArray[np.float64] = STEP ** np.arange(-reach, reach + 1, dtype=np.float64)
        self._stakes = Stakes(confidence, streams=len(self._grid))
        self._above = np.zeros(len(self._grid))
        self._below = np.zeros(len(self._grid))
        self._first, self._last = -1, len(self._grid)
        self._seen: Counter[int] = Counter()
        self._count = 0

    def update(self, control_ns: int, candidate_ns: int) -> None:
        """Take one pair of times, nanoseconds.

        Raises:
            EvidenceError: a time is not above 0.
        """
        if control_ns <= 0 or candidate_ns <= 0:
            raise EvidenceError(
                f"times of {control_ns} and {candidate_ns} ns have no ratio; record what the"
                " clock said"
            )
        ratio = candidate_ns / control_ns
        within = (ratio <= self._grid).astype(np.float64)
        more, less = gains(self._stakes.next(), within, HALF)
        self._below += more
        self._above += less
        self._stakes.learn(within)
        ruin = math.log(self._stakes.wealth)
        above, below = self._above >= ruin, self._below >= ruin
        lows = int(np.argmin(above)) if not above.all() else len(above)
        highs = int(np.argmin(below[::-1])) if not below.all() else len(below)
        self._first = max(self._first, lows - 1)
        self._last = min(self._last, len(below) - highs)
        self._seen[int(np.searchsorted(self._grid, ratio))] += 1
        self._count += 1

    def interval(self) -> Estimate:
        """Median so far, to a step of the grid, and what no gambler has got rich against.

        An end that nothing bounds yet is 0 or infinite.

        Raises:
            EvidenceError: no pair came yet.
        """
        if not self._count:
            raise EvidenceError("no pair of times came yet; ask for an interval after the first")
        low = float(self._grid[self._first]) if self._first >= 0 else 0.0
        high = float(self._grid[self._last]) if self._last < len(self._grid) else math.inf
        return Estimate(self._middle(), low, high, self._count)

    def _middle(self) -> float:
        """Upper end of the step that holds the lower median."""
        passed = 0
        at = 0
        for at in sorted(self._seen):
            passed += self._seen[at]
            if 2 * passed >= self._count:
                break
        return float(self._grid[min(at, len(self._grid) - 1)])
