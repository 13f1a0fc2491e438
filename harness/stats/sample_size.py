"""The number of queries that a comparison needs."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, chdtri, ndtr, stdtr, stdtrit

from harness.core.errors import EvidenceError
from harness.core.scores import Dependence
from harness.stats.bootstrap import FEWEST, by_cluster, check_units
from harness.stats.bounded import ValueRange, bounded_each, low_ends
from harness.stats.interval import size_for
from harness.stats.sequential import times_needed


def dependence(values: NDArray[np.float64], clusters: NDArray[np.int64] | None) -> Dependence:
    """Weigh the clusters of ``values``; both have shape (queries,), None where all stand alone.

    Values without spread say nothing about their clusters; the design effect is then the worst:
    that of clusters whose queries are one and the same.
    """
    if not len(values):
        raise EvidenceError("no value came; nothing may be said of how much many are worth")
    sums, sizes = by_cluster(values, clusters)
    largest, worst = int(sizes.max()), float((sizes**2).sum() / len(values))
    mean = float(values.mean())
    alone, together = ((values - mean) ** 2).sum(), ((sums - sizes * mean) ** 2).sum()
    units = len(sums)
    if np.ptp(values) == 0 or units == 1:
        return Dependence(len(values), units, largest, worst)
    effect = (together * units / (units - 1)) / (alone * len(values) / (len(values) - 1))
    return Dependence(len(values), units, largest, float(effect))


ROUNDED = 1.05
"""The bound errs so far to the safe side at most."""
ALIKE = 100
"""Queries of a sample of one value; its count is the unknown."""


def unseen_loss(largest: float, level: float) -> float:
    """Return the loss that queries without one never exclude, as a share of the largest loss.

    Clusters that have the share ``largest`` of the queries each may be as many as go unseen with
    probability ``level``.
    """
    odds = -math.log(level) * largest
    return odds / (1 + odds)


def min_queries(
    value: float, bound: float, *, span: ValueRange, level: float, largest: float = 0.0
) -> int:
    """Count the queries that it takes for a low end above ``bound``, were each of one ``value``.

    For no difference at all (0), a margin of 0.02 and a level of 2.5 % it is 188.
    """
    if not span.least <= bound < value <= span.most:
        raise EvidenceError(f"no number of queries with {value:g} shows a mean above {bound:g}")
    one = np.full((1, 1), value)
    share = (value - bound) / (value - span.least)
    if share <= ROUNDED * unseen_loss(largest, level):
        raise EvidenceError(
            f"clusters of {largest:.2%} of the queries may hide a mean of {bound:g} from any number"
            " of queries; lower largest_cluster"
        )
    count = 1 if share == 1 else math.ceil(math.log(level) / math.log1p(-share))

    def shown(count: int) -> bool:
        ends = bounded_each(
            one, span=span, level=level, clusters=None, largest=largest, times=count
        )
        return float(ends.low[0]) > bound

    while not shown(count):
        count += 1
    return count


def min_queries_at_every_look(value: float, bound: float, *, span: ValueRange, level: float) -> int:
    """Count the same for an interval that holds at every look while queries are added."""
    if not span.least <= bound < value <= span.most:
        raise EvidenceError(f"no number of queries with {value:g} shows a mean above {bound:g}")
    alike = np.full(ALIKE, value)
    times = times_needed(alike, bound, span=span, confidence=1 - 2 * level, clusters=None)
    if times is None:
        raise EvidenceError(f"a mean above {bound:g} takes more queries than anybody can judge")
    return math.ceil(ALIKE * times)


MAX_QUERIES = 10**9
ROUNDS = 6
"""How often the width is fitted anew where the answer lies; it settles after two or three."""
FURTHER = 2.0
"""How much further off its second point lies."""
SETTLED = 1.002
"""An answer that moves by less than this factor moves no more."""
SAME = 1e-12
SOLVED = 1e-4

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Pilot(NamedTuple):
    """Observed queries as a forecast of more queries like them."""

    values: Floats
    """Shape (queries,)."""
    clusters: Codes | None
    span: ValueRange
    mean: float
    spread: float
    """Deviation per query: its square over the queries is the variance of the mean."""
    units: int
    """Independent ones."""
    df: float
    """Degrees of freedom of the spread (Satterthwaite)."""
    largest: float
    """Largest share of the queries that one cluster may have."""

    @classmethod
    def of(
        cls, values: Floats, *, span: ValueRange, clusters: Codes | None, largest: float = 0.0
    ) -> "Pilot":
        """Measure mean and spread."""
        sums, sizes = by_cluster(values, clusters)
        units = len(sums)
        check_units(units)
        mean = float(values.mean())
        residuals = sums - sizes * mean
        squares = residuals**2
        total = float(squares.sum())
        excess = units * float((squares**2).sum()) - total**2
        few = 2 * units * total**2 / excess if excess > 0 else math.inf
        df = min(units - 1.0, max(2.0, few))
        spread = math.sqrt(total * units / (units - 1) / len(values))
        return cls(values, clusters, span, mean, spread, units, df, largest)

    def student(self, queries: float, level: float) -> float:
        """Return the half-width of the t interval of so many queries."""
        times = queries / len(self.values)
        units = max(FEWEST, self.units * times)
        df = max(1.0, min(units - 1, self.df * times))
        return float(stdtrit(df, 1 - level)) * self.spread / math.sqrt(queries * (1 - 1 / units))

    def bounded(self, queries: float, level: float, *, upwards: bool) -> float:
        """Return how far the bound for bounded means reaches below the mean, or ``upwards``."""
        low = low_ends(
            (-self.values if upwards else self.values).reshape(-1, 1),
            span=ValueRange(-self.span.most, -self.span.least) if upwards else self.span,
            level=level,
            clusters=self.clusters,
            largest=self.largest,
            times=queries / len(self.values),
        )
        return float(-low[0] - self.mean if upwards else self.mean - low[0])


def queries_needed(
    values: Floats,
    *,
    bound: float,
    span: ValueRange,
    confidence: float,
    power: float,
    clusters: Codes | None,
    largest: float = 0.0,
) -> int | None:
    """Count the queries like ``values`` whose interval clears ``bound`` with ``power``.

    ``values`` has shape (queries,) and lies within ``span``. None where all values are the bound,
    or the bound lies outside of the span: then no number settles it.
    """
    pilot = Pilot.of(values, span=span, clusters=clusters, largest=largest)
    if not span.least < bound < span.most:
        return None
    if pilot.spread < SAME and math.isclose(pilot.mean, bound, abs_tol=SAME):
        return None
    level = (1 - confidence) / 2

    def settled(queries: float, reach: float) -> float:
        unsure = pilot.spread * math.sqrt(1 / len(values) + 1 / queries)
        ahead = [side * (pilot.mean - bound) - reach for side in (1, -1)]
        if unsure < SAME:
            return float(max(ahead) > 0)
        return sum(float(stdtr(pilot.units - 1, gap / unsure)) for gap in ahead)

    return solved(pilot, level, power, settled, upwards=pilot.mean < bound)


def solved(
    pilot: Pilot,
    level: float,
    power: float,
    chance: Callable[[float, float], float],
    *,
    upwards: bool,
) -> int | None:
    """Solve for the number of queries at which the probability of a decision is ``power``.

    None if the number is too large to be judged. The bound's half-width is modelled as ``a /
    sqrt(n) + b / n``, through two points near the answer.
    """
    found = float(len(pilot.values))
    for _ in range(ROUNDS):
        points = np.array([found, FURTHER * found])
        reaches = [pilot.bounded(float(at), level, upwards=upwards) for at in points]
        slope, rest = np.linalg.solve(np.column_stack([points**-0.5, 1 / points]), reaches)

        def reach(queries: float, slope: float = slope, rest: float = rest) -> float:
            return max(slope / math.sqrt(queries) + rest / queries, pilot.student(queries, level))

        before, found = found, _smallest(lambda n: chance(n, reach(n)) >= power)
        if found > MAX_QUERIES:
            return None
        if max(before, found) < SETTLED * min(before, found):
            break
    return math.ceil(found)


def _smallest(enough: Callable[[float], bool]) -> float:
    """Return the fewest queries that are enough, between two and more than anybody can judge."""
    low, high = float(FEWEST), 2.0 * FEWEST
    if enough(low):
        return low
    while not enough(high) and high <= MAX_QUERIES:
        low, high = high, 2 * high
    while high - low > SOLVED * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


ASSURANCE = 0.8
"""Share of pilots whose upper limit of the spread is not below the true one."""
MADE = 2_000
"""Queries of a sample that stands for an assumed spread."""
LEAST = 0.01
"""Smallest spread that may be assumed, as a share of the largest possible difference."""
STEP = 1.01
"""Numbers of queries nearer than this factor are one plan."""


class IntervalTarget(NamedTuple):
    """What an interval must show, and where the truth is assumed to be."""

    truth: float
    bound: float
    both_sides: bool = False
    """Whether it must lie within the bound on both sides of 0."""


def assumed(spread: float, *, truth: float, span: ValueRange) -> Floats:
    """Make differences of a given mean and standard deviation, as extreme as they can be.

    Every query that moves, moves as far as ``span`` allows. Of all samples of that spread these
    leave the most room for unseen losses. Shape (queries,).
    """
    far = min(span.most - truth, truth - span.least)
    share = (spread / far) ** 2 if far > 0 else math.inf
    if not LEAST**2 <= share <= 1:
        raise EvidenceError(
            f"differences of mean {truth:g} within {span.least:g} and {span.most:g} cannot have a"
            f" standard deviation of {spread:g}; from {LEAST * far:g} to {far:g} they can"
        )
    moved = max(1, round(MADE * share / 2))
    values = np.full(max(2 * moved, round(2 * moved / share)), truth)
    values[:moved] += far
    values[-moved:] -= far
    return values


def upper_spread(pilot: Pilot) -> float:
    """Return the upper limit of the spread per query, at 80 %."""
    return pilot.spread * math.sqrt(pilot.df / float(chdtri(pilot.df, ASSURANCE)))


def planned(
    values: Floats,
    wanted: IntervalTarget,
    *,
    span: ValueRange,
    confidence: float,
    power: float,
    clusters: Codes | None,
    largest: float = 0.0,
    known: bool = False,
) -> int | None:
    """Count the queries whose interval meets the goal with ``power``, if the truth is as assumed.

    ``values``, shape (queries,), are the pilot's. Only their form and the upper limit of their
    spread are used; the spread itself where it is ``known``. None where no number would do.
    """
    pilot = Pilot.of(values, span=span, clusters=clusters, largest=largest)
    spread = pilot.spread if known else upper_spread(pilot)
    room = abs(wanted.truth - wanted.bound)
    if wanted.both_sides:
        room = min(wanted.bound - wanted.truth, wanted.bound + wanted.truth)
    if room <= 0:
        return None
    level = (1 - confidence) / 2
    if not spread and (wanted.both_sides or wanted.truth > wanted.bound):
        low = wanted.truth - room
        return min_queries(wanted.truth, low, span=span, level=level, largest=largest)
    wider = spread / pilot.spread if pilot.spread else 1.0
    moved = np.clip(wanted.truth + wider * (pilot.values - pilot.mean), *pilot.span)
    at_truth = Pilot.of(moved, span=span, clusters=pilot.clusters, largest=largest)

    def chance(queries: float, reach: float) -> float:
        error = spread / math.sqrt(queries)
        if error == 0:
            return float(room > reach)
        clears = float(ndtr((room - reach) / error))
        return 2 * clears - 1 if wanted.both_sides else clears

    return solved(at_truth, level, power, chance, upwards=wanted.truth < wanted.bound)


def planned_equal(
    moved: float,
    wanted: IntervalTarget,
    *,
    span: ValueRange,
    confidence: float,
    power: float,
    largest: float,
) -> int | None:
    """Count the queries that pass an equal candidate, of which a share ``moved`` of them moves.

    Each of these moves by half of the span, up as often as down. None where no number would do.
    """
    count = round(MADE * moved / 2)
    values = np.full(MADE, wanted.truth)
    values[:count] += span.most / 2
    values[len(values) - count :] += span.least / 2
    return planned(
        values, wanted, span=span, confidence=confidence, power=power, clusters=None,
        largest=largest, known=True,
    )  # fmt: skip


def planned_share(rate: float, *, ceiling: float, confidence: float, power: float) -> int | None:
    """Count the queries that show a share below ``ceiling`` with ``power``, were it ``rate``.

    None where the rate is not below the ceiling.
    """
    if rate >= ceiling:
        return None
    tail = (1 - confidence) / 2
    count = size_for(0, ceiling=ceiling, confidence=confidence)
    while _shown(count, rate, ceiling, tail) < power:
        count = math.ceil(count * STEP)
        if count > MAX_QUERIES:
            return None
    return count


def _shown(queries: int, rate: float, ceiling: float, tail: float) -> float:
    """Chance that so few queries go wrong that the exact interval lies below the ceiling."""
    if rate == 0:
        return 1.0
    few = np.arange(math.floor(queries * ceiling) + 1)
    fine = few[betaincinv(few + 1, queries - few, 1 - tail) < ceiling]
    return float(bdtr(int(fine.max()), queries, rate)) if len(fine) else 0.0
