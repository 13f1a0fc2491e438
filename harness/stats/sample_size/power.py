"""The number of queries that settle a comparison with a given power, forecast from a pilot.

The count is a forecast from observed queries. Its power is that of the interval itself, the wider
of Student's t and of the bound for bounded means. It is averaged over the pilot's uncertainty: the
true mean varies around the observed one by the pilot's standard error. This is predictive power
(Spiegelhalter, Freedman and Blackburn, Statistics in Medicine 5, 1986). A count from the observed
mean and spread alone delivers less than its power.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.stats.bootstrap import FEWEST, by_cluster
from harness.stats.bounded import Span, low_ends

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
    span: Span
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
        cls, values: Floats, *, span: Span, clusters: Codes | None, largest: float = 0.0
    ) -> Pilot:
        """Measure mean and spread.

        Raises:
            EvidenceError: fewer than two independent queries.
        """
        sums, sizes = by_cluster(values, clusters)
        units = len(sums)
        if units < FEWEST:
            raise EvidenceError(
                f"{many(units, 'independent query has')} no spread; ask at least {FEWEST}"
            )
        mean = float(values.mean())
        residuals = sums - sizes * mean
        squares = residuals**2
        total = float(squares.sum())
        excess = units * float((squares**2).sum()) - total**2
        df = (
            min(units - 1.0, max(2.0, 2 * units * total**2 / excess)) if excess > 0 else units - 1.0
        )
        spread = math.sqrt(total * units / (units - 1) / len(values))
        return cls(values, clusters, span, mean, spread, units, df, largest)

    def student(self, queries: float, level: float) -> float:
        """Give the half-width of the t interval of so many queries."""
        times = queries / len(self.values)
        units = max(FEWEST, self.units * times)
        df = max(1.0, min(units - 1, self.df * times))
        return float(stdtrit(df, 1 - level)) * self.spread / math.sqrt(queries * (1 - 1 / units))

    def bounded(self, queries: float, level: float, *, upwards: bool) -> float:
        """Give how far the bound for bounded means reaches below the mean, or ``upwards``."""
        low = low_ends(
            (-self.values if upwards else self.values).reshape(-1, 1),
            span=Span(-self.span.most, -self.span.least) if upwards else self.span,
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
    span: Span,
    confidence: float,
    power: float,
    clusters: Codes | None,
    largest: float = 0.0,
) -> int | None:
    """Count the queries like ``values`` whose interval clears ``bound`` with ``power``.

    ``values`` has shape (queries,) and lies within ``span``. None where all values are the bound,
    or the bound lies outside of the span: then no number settles it.

    Raises:
        EvidenceError: fewer than two independent queries.
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
    """Give the fewest queries that are enough, between two and more than anybody can judge."""
    low, high = float(FEWEST), 2.0 * FEWEST
    if enough(low):
        return low
    while not enough(high) and high <= MAX_QUERIES:
        low, high = high, 2 * high
    while high - low > SOLVED * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
