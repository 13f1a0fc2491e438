"""Traffic and times whose truth is known: families that ``benchmarks/simulate.py`` tabulates."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.core.scores import Estimate
from harness.stats.sequential import NS_PER_S, blocks
from harness.stats.times import fewest_for, percentile, ratio, slowdown

SEED, CONFIDENCE = 20_261_122, 0.95
Rng = np.random.Generator
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY_S, HOUR_S, MIN_PERIODS = 86_400, 3_600, 2


class Course(NamedTuple):
    """How live traffic fails, in seconds, and how much of it there is."""

    share: float
    """Of the pairs that fail, in the mean of a day."""
    swing: float = 0.0
    """Of the share: 1 where nothing fails for half a day and twice as much in the other half."""
    outage_s: tuple[float, float] = (0.0, 0.0)
    """Least and greatest length of an outage, in which all fail; failures are single without."""
    pairs_s: float = 0.05
    """Pairs a second, in the mean."""
    tide: float = 0.0
    """Of the pairs: by how much more come in the half of the day in which more fail."""
    drift: float = 0.0
    """Of the share: how much more fail on the last day than in the mean, and less on the first."""
    start_s: float = 0.0
    """When the log begins: the quiet half of the day begins at 0."""


BOUND, DAYS = 0.05, 6
COURSES: Mapping[str, Course] = {
    "single failures": Course(BOUND),
    "none at night, twice as many by day": Course(BOUND, swing=1.0),
    "the same, a log that begins at night's end": Course(BOUND, swing=1.0, start_s=DAY_S / 2),
    "the same, nine times the pairs by day": Course(BOUND, swing=1.0, tide=0.8),
    "outages of 10 to 30 minutes": Course(BOUND, outage_s=(600, 1_800)),
    "outages of 30 minutes": Course(BOUND, outage_s=(1_800, 1_801)),
    "more from day to day": Course(BOUND, drift=0.9),
    "single failures, a quarter of the bound": Course(BOUND / 4),
    "half of the bound": Course(BOUND / 2),
    "outages, a tenth of the bound": Course(BOUND / 10, outage_s=(600, 1_800)),
    "a tenth of the bound, nine times the pairs by day": Course(BOUND / 10, swing=1.0, tide=0.8),
}
"""Live traffic by its words; where not said otherwise, its mean is the bound."""


def stream(rng: Rng, course: Course, days: int) -> tuple[Floats, Ints]:
    """Draw failures and their times, of so many days and an hour."""
    seconds = days * DAY_S + HOUR_S
    count = rng.poisson(course.pairs_s * seconds * (1 + abs(course.tide)))
    at = np.sort(rng.random(count)) * seconds
    busy = (at + course.start_s) % DAY_S >= DAY_S / 2
    stays = rng.random(count) * (1 + abs(course.tide)) < 1 + course.tide * np.where(busy, 1, -1)
    at, busy = at[stays], busy[stays]
    # the mean over pairs is the share, however many come when
    swing = (1 + course.swing * np.where(busy, 1, -1)) / (1 + course.swing * course.tide)
    swing *= 1 + course.drift * (2 * (at // DAY_S) / max(days - 1, 1) - 1)
    if course.outage_s[1]:
        mean = sum(course.outage_s) / 2
        begins = rng.random(rng.poisson(course.share * seconds / mean)) * seconds
        ends = begins + rng.uniform(*course.outage_s, len(begins))
        bad = np.zeros(len(at), dtype=bool)
        for begin, end in zip(begins, ends, strict=True):
            bad[np.searchsorted(at, begin) : np.searchsorted(at, end)] = True
    else:
        bad = rng.random(len(at)) < course.share * swing
    return bad.astype(np.float64), np.rint(at * NS_PER_S).astype(np.int64)


class Passed(NamedTuple):
    """Shares of the streams."""

    ever: float
    """That pass at the end of any day from the second on."""
    last: float
    """That pass at the last day."""
    failed: float
    """That lie beyond the bound at the end of any day."""


def passed(
    course: Course, days: int, trials: int, *, bound: float, block_s: float = 1_800.0
) -> Passed:
    """Judge streams after each day."""
    rng = np.random.default_rng((SEED, days, round(1e5 * course.share), round(course.outage_s[1])))
    counts = np.zeros(3)
    for _ in range(trials):
        values, at = stream(rng, course, days)
        looks = []
        for day in range(MIN_PERIODS, days + 1):
            until = int(np.searchsorted(at, at[0] + day * DAY_S * NS_PER_S)) + 1
            found = blocks(values[:until], at[:until], block_s=block_s, period_s=DAY_S)
            if found.periods >= MIN_PERIODS:
                looks.append([
                    found.surely(bound, above=side, confidence=CONFIDENCE) for side in (False, True)
                ])
        each = np.array(looks or [[False, False]])
        counts += each[:, 0].any(), each[-1, 0], each[:, 1].any()
    return Passed(*(counts / trials).tolist())


def traffic_rows(trials: int) -> Iterator[Sequence[str]]:
    """Yield a row for each course of traffic whose mean is the bound, and for good ones."""
    for name, course in COURSES.items():
        found = passed(course, DAYS, trials, bound=BOUND)
        yield name, f"{course.share:.2%}", f"{found.ever:.2%}", f"{found.failed:.2%}"


# Percentiles of times of races in several processes.


HARD, SHARED, NOISE = 0.6, 0.77, 0.1
"""Spread of logarithms over queries, how much of it two arms share, and from call to call."""
PROCESSES, MS = 4, 1e6
Times = Callable[[Rng, int], tuple[Ints, Ints]]
"""Draws times of candidate and control for so many queries, shape (processes, queries)."""


class Asked(NamedTuple):
    """A gate's statistic (``ratio``, ``slowdown`` or ``percentile``), percentile and bound."""

    kind: str
    percent: float
    bound: float

    def estimate(self, candidate: Ints, control: Ints) -> Estimate:
        """Return what the gate judges."""
        if self.kind == "percentile":
            return percentile(candidate, self.percent, confidence=CONFIDENCE)
        of = ratio if self.kind == "ratio" else slowdown
        return of(candidate, control, self.percent, confidence=CONFIDENCE)

    def fewest(self) -> int:
        """Return the queries below which the gate is INCONCLUSIVE."""
        return fewest_for(self.percent, CONFIDENCE, arms=2 if self.kind == "ratio" else 1)


def slow(
    rng: Rng, queries: int, *, share: float, factor: float, rows: int = 1
) -> tuple[Ints, Ints]:
    """Draw a candidate of which a share of queries, or with ``rows`` of calls, is slow."""
    which = rng.random((rows, queries)) < share
    level = [MS * np.exp(0.01 * rng.normal(size=(PROCESSES, queries))) for _ in range(2)]
    slowed = (level[1] * np.where(which, factor, 1.0)).astype(np.int64)
    return slowed, level[0].astype(np.int64)


def hard(rng: Rng, queries: int, *, apart: float = 0.0) -> tuple[Ints, Ints]:
    """Draw lognormal times of two arms that share some of what makes a query hard.

    ``apart`` is the spread of the logarithms of processes, in each arm by itself.
    """
    shared, *each = rng.normal(size=(3, queries))
    candidate, control = (
        MS
        * np.exp(
            HARD * (SHARED * shared + math.sqrt(1 - SHARED**2) * mine)
            + apart * rng.normal(size=(PROCESSES, 1))
            + NOISE * rng.normal(size=(PROCESSES, queries))
        )
        for mine in each
    )
    return candidate.astype(np.int64), control.astype(np.int64)


BY_QUERY = math.exp(math.sqrt(2 * (HARD**2 * (1 - SHARED**2) + NOISE**2)) * float(ndtri(0.95)))
"""How many times as slow as the control's the 95th percentile of queries is, of equal arms."""
RARELY, OFTENER = partial(slow, share=0.01001, factor=1000), partial(slow, share=0.052, factor=10)
AT_BOUND: Mapping[str, tuple[Times, Asked]] = {
    "5.2 % of queries ten times as slow, p95 ratio": (OFTENER, Asked("ratio", 95, 3)),
    "5.2 % of queries ten times as slow, p95": (OFTENER, Asked("percentile", 95, 3 * MS)),
    "1 % of queries a thousand times as slow, p99 by query": (RARELY, Asked("slowdown", 99, 10)),
    "1 % of queries a thousand times as slow, p99 ratio": (RARELY, Asked("ratio", 99, 10)),
    "5.2 % of calls ten times as slow, p95": (
        partial(OFTENER, rows=PROCESSES), Asked("percentile", 95, 3 * MS)
    ),
    "lognormal, p50 ratio at its bound": (hard, Asked("ratio", 50, 1)),
    "lognormal, p95 ratio at its bound": (hard, Asked("ratio", 95, 1)),
    "lognormal, p95 by query at its bound": (hard, Asked("slowdown", 95, BY_QUERY)),
    "processes apart by 0.1, p50 ratio at its bound": (
        partial(hard, apart=0.1), Asked("ratio", 50, 1)
    ),
}  # fmt: skip
"""Truths at a bound or just beyond it: a PASS is wrong, and at most 2.5 % may be."""
EQUAL: Mapping[str, tuple[Times, Asked]] = {
    "p50 ratio below 2": (hard, Asked("ratio", 50, 2)),
    "p95 ratio below 3": (hard, Asked("ratio", 95, 3)),
    "p99 by query below 10": (hard, Asked("slowdown", 99, 10)),
    "p95 below 5 ms": (hard, Asked("percentile", 95, 5 * MS)),
    "p99 below 10 ms": (hard, Asked("percentile", 99, 10 * MS)),
}
"""Candidates that are as quick as the control: a PASS is right."""


def fast_enough(draw: Times, asked: Asked, queries: int, trials: int) -> float:
    """Return the share of races that the gate passes."""
    rng = np.random.default_rng((SEED, queries))
    return (
        sum(asked.estimate(*draw(rng, queries)).high < asked.bound for _ in range(trials)) / trials
    )


def missed(kind: str, percent: float, *, queries: int, apart: float, trials: int) -> float:
    """Return the share of intervals of three processes that do not hold the truth.

    ``kind`` is ``ratio`` (of two arms that are alike) or ``percentile`` (of one arm).
    """
    spread = math.sqrt(HARD**2 + NOISE**2 + apart**2)
    truth = MS * math.exp(spread * float(ndtri(percent / 100))) if kind == "percentile" else 1.0
    rng, asked, outside = np.random.default_rng((SEED, queries, 3)), Asked(kind, percent, truth), 0
    for _ in range(trials):
        candidate, control = (times[:3] for times in hard(rng, queries, apart=apart))
        found = asked.estimate(candidate, control)
        outside += not found.low <= truth <= found.high
    return outside / trials
