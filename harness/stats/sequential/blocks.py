"""Bets on the mean of live traffic, settled at the end of each whole period.

Traffic has a course: nights differ from days, and failures come in bursts. So values are cut into
blocks of a fixed time, as long as a burst, and only whole periods count. Blocks must be independent
of each other, given how many values they have; their expected means may differ within a period.

Against each mean m, gamblers stake fixed shares s of their capital on every block, in proportion to
its values. A block of n values of mean x multiplies the capital by ``1 + s * n / scale * (x / m -
1)``. Over a period whose expected mean is m or less the capital is not expected to grow, whatever
the course, since ``1 + y <= exp(y)``. So its values at the ends of periods are a supermartingale.
By Ville's inequality it ever reaches ``1 / level`` with probability at most ``level``. Bets of
Waudby-Smith and Ramdas, JRSS B 86 (2024); fixed shares of Cover, Mathematical Finance 1 (1991).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import exp, log, log1p
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate

NS_PER_S = 1_000_000_000
SHARES = np.array([1.0, 0.8, 0.6, 0.4, 0.2, 0.1])
"""Of the capital, at stake in a block as large as the largest of the first period. A larger one
later ends the gamblers who would stake more than they have."""
FORESIGHT = 64
"""Largest forecast, as a multiple of the present periods."""
HALVINGS = 40
"""An end is known to a trillionth."""
LEAST_MEAN = 1e-12
ROUNDED = 1e-12
"""Variation below this share of the largest is rounding."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of whole periods by time; those without a value are left out. Shapes (blocks,)."""

    sums: Floats
    sizes: Ints
    """Values of each."""
    period: Ints
    """From 0."""
    slot: Ints
    """Place in its period, from 0."""
    periods: int
    """Whole periods."""

    @property
    def mean(self) -> float:
        """Mean of all values."""
        return float(self.sums.sum() / self.sizes.sum())

    def of(self, period: int) -> Blocks:
        """Give the blocks of one period."""
        own = self.period == period
        parts = self.sums[own], self.sizes[own], self.period[own] - period, self.slot[own]
        return Blocks(*parts, periods=1)

    @property
    def _means(self) -> Floats:
        found: Floats = self.sums / self.sizes
        return found

    def interval(self, confidence: float) -> Estimate:
        """Mean of all values, with an interval that is valid at the end of every period.

        Each end alone has half the error rate.
        """
        wealth, mean, up = math.log(2 / (1 - confidence)), self.mean, self._means
        low = self._low_end(up, mean, wealth)
        high = 1 - self._low_end(1 - up, 1 - mean, wealth)
        return Estimate(mean, min(low, mean), max(high, mean), int(self.sizes.sum()))

    def surely(self, limit: float, *, above: bool, confidence: float) -> bool:
        """Tell whether the interval of this confidence lies wholly above ``limit``, or below."""
        wealth, up = math.log(2 / (1 - confidence)), self._means
        return self._rich(up, limit, wealth) if above else self._rich(1 - up, 1 - limit, wealth)

    def periods_needed(self, limit: float, confidence: float) -> int | None:
        """Count the periods until ``limit`` is excluded, if further ones are like these.

        None where ``FORESIGHT`` times as many would not do, as with a mean on the limit.
        """
        wealth, up = math.log(2 * len(SHARES) / (1 - confidence)), self._means
        above = self.mean > limit
        made = self._capitals(up, limit) if above else self._capitals(1 - up, 1 - limit)
        most = float(made.max())
        return math.ceil(self.periods * wealth / most) if most * FORESIGHT > wealth else None

    @property
    def memory(self) -> tuple[float, float]:
        """Correlation of a block with the next one, and the same in standard errors.

        The mean over all periods of the same place in a period is taken out, for it is the course
        of a day and no burst. Both are 0 where no two periods differ.
        """
        places = int(self.slot.max(initial=0)) + 1
        apart = np.zeros((self.periods, places))
        apart[self.period, self.slot] = self.sums - self.mean * self.sizes
        apart -= apart.mean(axis=0)
        row = apart.ravel()
        squares, products = float((row**2).sum()), row[1:] * row[:-1]
        error = math.sqrt(float((products**2).sum()) * self.periods / max(self.periods - 1, 1))
        if not error > ROUNDED * squares:
            return 0.0, 0.0
        return float(products.sum()) / squares, float(products.sum()) / error

    def _capitals(self, means: Floats, mean: float) -> Floats:
        """Logarithm of what each gambler made of 1 by betting on more than ``mean``."""
        share = self.sizes / self.sizes[self.period == self.period[0]].max()
        stakes = SHARES[:, None] * share
        ahead = means / max(mean, LEAST_MEAN) - 1
        with np.errstate(divide="ignore"):
            made: Floats = log1p(np.minimum(stakes, 1.0) * ahead).sum(axis=1)
        made[(stakes > 1).any(axis=1)] = -np.inf
        return made

    def _rich(self, means: Floats, mean: float, wealth: float) -> bool:
        made = self._capitals(means, mean)
        best = float(made.max())
        return best > -math.inf and best + float(log(exp(made - best).mean())) >= wealth

    def _low_end(self, means: Floats, high: float, wealth: float) -> float:
        """Give the greatest mean that the gamblers together got rich against, 0 without one."""
        low = 0.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._rich(means, middle, wealth) else (low, middle)
        return low


def blocks(values: Floats, at_ns: Ints, *, block_s: float, period_s: float) -> Blocks:
    """Cut values between 0 and 1 in the order of time, shape (values,), into blocks.

    Periods count from the first value; a period is whole where a value came after its end.
    ``at_ns``, shape (values,), ascends.

    Raises:
        EvidenceError: a value does not lie between 0 and 1.
    """
    if wrong := values[~((values >= 0) & (values <= 1))].tolist():
        raise EvidenceError(f"a value of {wrong[0]} lies outside [0, 1]; give shares")
    since = at_ns - at_ns[0] if len(at_ns) else at_ns
    length, each = round(period_s * NS_PER_S), round(block_s * NS_PER_S)
    periods = int(since[-1] // length) if len(since) else 0
    kept = int(np.searchsorted(since, periods * length))
    period, slot = np.divmod(since[:kept], length)
    slot //= each
    starts = np.flatnonzero(np.diff(period * (length // each + 1) + slot, prepend=-1))
    sizes = np.diff(starts, append=kept)
    sums = np.add.reduceat(values[:kept], starts) if kept else np.zeros(0)
    return Blocks(sums, sizes, period[starts], slot[starts], periods)


def blocks_needed(room: float, confidence: float) -> int:
    """Count the equal blocks without a fault that show a share of faults to lie below ``room``.

    The gambler with the highest stake makes ``1 / (1 - room)`` of 1 in each.
    """
    return math.ceil(math.log(2 * len(SHARES) / (1 - confidence)) / -math.log1p(-room))
