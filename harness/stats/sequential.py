"""Confidence sequences and e-values, valid at every look."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import exp, log, log1p
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.bootstrap import by_cluster, check_units
from harness.stats.bounded import ValueRange

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
        """Return the bet on the value that comes next, before any cut; shape (streams,)."""
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


class BettingSequence:
    """A confidence sequence of the mean of values between ``least`` and ``most``.

    The intervals of all times together hold the true mean with the given confidence, so each may be
    read, and acted upon, at any time. Values may depend on those before them, but the expected next
    mean must not change. ``low`` alone, or ``high`` alone, has half the error rate.

    Raises:
        EvidenceError: the range is empty, or the confidence does not lie between 0 and 1.
    """

    def __init__(self, *, confidence: float, least: float, most: float) -> None:
        if not (least < most and 0 < confidence < 1):
            raise EvidenceError(
                f"no sequence over [{least}, {most}] at confidence {confidence}; the range must"
                " have a width and the confidence lie between 0 and 1"
            )
        self._least, self._width = least, most - least
        self._stakes = Stakes(confidence, streams=1)
        self._means = np.linspace(0, 1, STEPS + 1)
        self._higher, self._lower = np.zeros(STEPS + 1), np.zeros(STEPS + 1)
        self._first, self._last = 0, STEPS
        self._sum = 0.0
        self._count = 0

    def update(self, value: float) -> None:
        """Take one value."""
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
        """Mean of the values so far, with its interval: the means that are not excluded."""
        if not self._count:
            raise EvidenceError("no value came yet; ask for an interval after the first")
        low, high = (
            self._least + self._width * self._means[at] for at in (self._first, self._last)
        )
        return Estimate(self._sum / self._count, float(low), float(high), self._count)


NS_PER_S = 1_000_000_000
BLOCK_SHARES = np.array([1.0, 0.8, 0.6, 0.4, 0.2, 0.1])
"""Of the capital, at stake in a block as large as the largest of the first period. A larger one
later ends the gamblers who would stake more than they have."""
FORESIGHT = 64
"""Largest forecast, as a multiple of the present periods."""
HALVINGS = 40
"""An end is known to a trillionth."""
LEAST_MEAN = 1e-12
ROUNDED = 1e-12
"""Variation below this share of the largest is rounding."""

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

    def of(self, period: int) -> "Blocks":
        """Return the blocks of one period."""
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
        """Return whether the interval of this confidence lies wholly above ``limit``, or below."""
        wealth, up = math.log(2 / (1 - confidence)), self._means
        return self._rich(up, limit, wealth) if above else self._rich(1 - up, 1 - limit, wealth)

    def periods_needed(self, limit: float, confidence: float) -> int | None:
        """Count the periods until ``limit`` is excluded, if further ones are like these.

        None where ``FORESIGHT`` times as many would not do, as with a mean on the limit.
        """
        wealth, up = math.log(2 * len(BLOCK_SHARES) / (1 - confidence)), self._means
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
        stakes = BLOCK_SHARES[:, None] * share
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
        """Return the greatest mean that the gamblers together got rich against, 0 without one."""
        low = 0.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._rich(means, middle, wealth) else (low, middle)
        return low


def blocks(values: Floats, at_ns: Ints, *, block_s: float, period_s: float) -> Blocks:
    """Cut values between 0 and 1 in the order of time, shape (values,), into blocks.

    Periods count from the first value; a period is whole where a value came after its end.
    ``at_ns``, shape (values,), ascends.
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
    return math.ceil(math.log(2 * len(BLOCK_SHARES) / (1 - confidence)) / -math.log1p(-room))


EVALUE_SHARES = np.ldexp(1.0, -np.arange(6))
"""Of the capital, at stake if a value is the least there can be; from all of it to a 32nd."""
MOST_TIMES = 1_000.0
"""Above this multiple of the present queries, more judging is not suggested."""

Codes = NDArray[np.int64]


def evalues_each(
    values: Floats,
    *,
    span: ValueRange,
    confidence: float,
    clusters: Codes | None,
    largest: float = 0.0,
) -> tuple[Estimate, ...]:
    """Mean of each column of ``values``, shape (queries, columns), with its two-sided interval.

    All intervals that are made while queries are added hold the mean together with the given
    confidence; each end alone errs with half of what it leaves. With ``clusters``, shape
    (queries,), a cluster of S queries is one bet of S times the stake of one query. The largest
    cluster has the whole stake: one that was seen, or of the share ``largest`` of the queries.
    The mean is that over queries, as long as no larger cluster comes after the first look.
    """
    units, stakes = _units(values, span, clusters, largest)
    wealth = math.log(2 / (1 - confidence))
    width = span.most - span.least
    means = np.ascontiguousarray(values.T).mean(axis=1)
    lows = span.least + width * _low_ends(units, stakes, wealth)
    highs = span.most - width * _low_ends(1 - units, stakes, wealth)
    return tuple(
        Estimate(float(mean), float(min(low, mean)), float(max(high, mean)), len(values))
        for mean, low, high in zip(means, lows, highs, strict=True)
    )


def p_above(
    values: Floats, bound: float, *, span: ValueRange, clusters: Codes | None, largest: float = 0.0
) -> float:
    """Return the p-value of "the mean is ``bound`` or less", shape (queries,), valid at every look.

    It is one over what the gamblers made of 1.
    """
    units, stakes = _units(values.reshape(-1, 1), span, clusters, largest)
    mean = np.array([(bound - span.least) / (span.most - span.least)])
    return float(exp(-np.maximum(_capital(units, stakes, mean), 0.0))[0])


def times_needed(
    values: Floats,
    bound: float,
    *,
    span: ValueRange,
    confidence: float,
    clusters: Codes | None,
    largest: float = 0.0,
) -> float | None:
    """Return how many times as many queries like these, shape (queries,), would clear ``bound``.

    None where ``MOST_TIMES`` would not do, as where their mean lies on the bound.
    """
    units, stakes = _units(values.reshape(-1, 1), span, clusters, largest)
    mean = np.array([(bound - span.least) / (span.most - span.least)])
    if units[0] @ stakes / stakes.sum() < mean[0]:
        units, mean = 1 - units, 1 - mean
    wealth = math.log(2 / (1 - confidence))
    low, high = 0.0, MOST_TIMES
    if _capital(units, stakes, mean, high)[0] < wealth:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _capital(units, stakes, mean, middle)[0] >= wealth else (middle, high)
        )
    return high


def _units(
    values: Floats, span: ValueRange, clusters: Codes | None, largest: float
) -> tuple[Floats, Floats]:
    """Return means of the clusters as shares of the span, (columns, clusters), and their stakes."""
    sums, sizes = by_cluster(values, clusters)
    check_units(len(sums))
    if not (span.least <= values.min() and values.max() <= span.most):
        raise EvidenceError(
            f"values from {values.min():g} to {values.max():g} are not all within {span.least:g}"
            f" and {span.most:g}; nothing may be said of their mean"
        )
    units = (sums / sizes[:, None] - span.least) / (span.most - span.least)
    return np.ascontiguousarray(units.T), sizes / max(sizes.max(), largest * sizes.sum())


def _low_ends(units: Floats, stakes: Floats, wealth: float) -> Floats:
    """Return the greatest mean of each column that its gamblers got rich against; else 0."""
    low, high = np.zeros(len(units)), (units * stakes).sum(axis=1) / stakes.sum()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rich = _capital(units, stakes, middle) >= wealth
        low, high = np.where(rich, middle, low), np.where(rich, high, middle)
    return low


def _capital(units: Floats, stakes: Floats, means: Floats, times: float = 1.0) -> Floats:
    """Logarithm of what betting on more than ``means`` made of 1; ``times`` repeats each unit."""
    ahead = stakes * (units / np.maximum(means, LEAST_MEAN)[:, None] - 1)
    with np.errstate(divide="ignore"):
        made = np.array([times * log1p(share * ahead).sum(axis=1) for share in EVALUE_SHARES])
    best = made.max(axis=0)
    found: Floats = best + log(exp(made - best).mean(axis=0))
    return found
