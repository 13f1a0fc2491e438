"""How often verdicts on times are wrong, and intervals miss, where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.core.scores import Estimate
from harness.stats.times.processes import fewest_for, percentile, ratio, slowdown

HARD, SHARED, NOISE = 0.6, 0.77, 0.1
"""Spread of logarithms over queries, how much of it two arms share, and from call to call."""
PROCESSES = 4
MS = 1e6
Times = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int], tuple[Times, Times]]
"""Times of the candidate and of the control for so many queries, shape (processes, queries)."""


class Asked(NamedTuple):
    """A gate's statistic, its percentile and its bound."""

    kind: str
    """``ratio``, ``slowdown`` or ``percentile``; the last in nanoseconds."""
    percent: float
    bound: float

    def estimate(self, candidate: Times, control: Times, confidence: float) -> Estimate:
        """Return what the gate judges."""
        if self.kind == "percentile":
            return percentile(candidate, self.percent, confidence=confidence)
        of = ratio if self.kind == "ratio" else slowdown
        return of(candidate, control, self.percent, confidence=confidence)

    def fewest(self, confidence: float) -> int:
        """Return the queries below which the gate is INCONCLUSIVE."""
        return fewest_for(self.percent, confidence, arms=2 if self.kind == "ratio" else 1)


def slow(share: float, factor: float, *, calls: bool = False, together: int = 1) -> Draw:
    """Slow a share of queries, or of calls; else the candidate is as quick as the control.

    ``together`` queries in a row are slow or not, all alike: clusters that were not seen.
    """

    def draw(rng: np.random.Generator, queries: int) -> tuple[Times, Times]:
        units = math.ceil(queries / together)
        rows = PROCESSES if calls else 1
        which = np.repeat(rng.random((rows, units)) < share, together, axis=1)[:, :queries]
        control, candidate = _level(rng, queries), _level(rng, queries)
        return (candidate * np.where(which, factor, 1.0)).astype(np.int64), control.astype(np.int64)

    return draw


def hard(*, apart: float = 0.0, factor: float = 1.0, together: int = 1) -> Draw:
    """Draw lognormal times of two arms that share some of what makes a query hard.

    ``apart`` is the spread of the logarithms of processes, in each arm by itself.
    """
    own = math.sqrt(1 - SHARED**2)

    def draw(rng: np.random.Generator, queries: int) -> tuple[Times, Times]:
        shared, *each = rng.normal(size=(3, math.ceil(queries / together)))
        arms = [
            MS
            * np.exp(
                np.repeat(HARD * (SHARED * shared + own * mine), together)[:queries]
                + apart * rng.normal(size=(PROCESSES, 1))
                + NOISE * rng.normal(size=(PROCESSES, queries))
            )
            for mine in each
        ]
        return (factor * arms[0]).astype(np.int64), arms[1].astype(np.int64)

    return draw


def _level(rng: np.random.Generator, queries: int) -> NDArray[np.float64]:
    """Draw times that are alike, within what calls differ."""
    return np.asarray(MS * np.exp(0.01 * rng.normal(size=(PROCESSES, queries))))


FAMILIES: Mapping[str, tuple[Draw, Asked]] = {
    "5.2 % of queries ten times as slow, p95 ratio": (slow(0.052, 10), Asked("ratio", 95, 3)),
    "5.2 % of queries ten times as slow, p95": (slow(0.052, 10), Asked("percentile", 95, 3 * MS)),
    "1 % of queries a thousand times as slow, p99 by query": (
        slow(0.01001, 1000), Asked("slowdown", 99, 10)
    ),
    "1 % of queries a thousand times as slow, p99 ratio": (
        slow(0.01001, 1000), Asked("ratio", 99, 10)
    ),
    "5.2 % of calls ten times as slow, p95": (
        slow(0.052, 10, calls=True), Asked("percentile", 95, 3 * MS)
    ),
    "lognormal, p50 ratio at its bound": (hard(), Asked("ratio", 50, 1)),
    "lognormal, p95 ratio at its bound": (hard(), Asked("ratio", 95, 1)),
    "lognormal, p95 by query at its bound": (
        hard(),
        Asked("slowdown", 95, math.exp(
            math.sqrt(2 * (HARD**2 * (1 - SHARED**2) + NOISE**2)) * float(ndtri(0.95))
        )),
    ),
    "processes apart by 0.1, p50 ratio at its bound": (hard(apart=0.1), Asked("ratio", 50, 1)),
}  # fmt: skip
"""Truths at a bound or just beyond it: a PASS is wrong, and at most 2.5 % may be."""
ALIKE: Mapping[str, tuple[Draw, Asked]] = {
    "p50 ratio below 2": (hard(), Asked("ratio", 50, 2)),
    "p95 ratio below 3": (hard(), Asked("ratio", 95, 3)),
    "p99 by query below 10": (hard(), Asked("slowdown", 99, 10)),
    "p95 below 5 ms": (hard(), Asked("percentile", 95, 5 * MS)),
    "p99 below 10 ms": (hard(), Asked("percentile", 99, 10 * MS)),
}
"""Candidates that are as quick as the control: a PASS is right."""


def passed(draw: Draw, asked: Asked, queries: int, trials: int) -> float:
    """Share of races that the gate passes."""
    rng = np.random.default_rng((SEED, queries))
    found = 0
    for _ in range(trials):
        found += asked.estimate(*draw(rng, queries), CONFIDENCE).high < asked.bound
    return found / trials


def verdicts(trials: int) -> Iterator[str]:
    """Return one line for each family: passes by number of queries."""
    counts = (75, 200, 400, 1000)
    for title, families in (("wrong", FAMILIES), ("right", ALIKE)):
        yield f"| a PASS is {title} | fewest | " + " | ".join(map(str, counts)) + " |"
        yield "| --- | ---: |" + " ---: |" * len(counts)
        for name, (draw, asked) in families.items():
            fewest = asked.fewest(CONFIDENCE)
            shares = (
                "INCONCLUSIVE" if n < fewest else f"{passed(draw, asked, n, trials):.2%}"
                for n in counts
            )
            yield f"| {name} | {fewest} | " + " | ".join(shares) + " |"


def covered(
    kind: str, percent: float, *, queries: int, processes: int, apart: float, trials: int
) -> tuple[float, float]:
    """Share of intervals that lie below the truth, and of those that lie above it.

    ``kind`` is ``ratio`` (of two arms that are alike) or ``percentile`` (of one arm).
    """
    spread = math.sqrt(HARD**2 + NOISE**2 + apart**2)
    truth = MS * math.exp(spread * float(ndtri(percent / 100))) if kind == "percentile" else 1.0
    rng = np.random.default_rng((SEED, queries, processes))
    draw, asked = hard(apart=apart), Asked(kind, percent, truth)
    below = above = 0
    for _ in range(trials):
        arms = [times[:processes] for times in draw(rng, queries)]
        found = asked.estimate(arms[0], arms[1], CONFIDENCE)
        below += found.high < truth
        above += found.low > truth
    return below / trials, above / trials


def of_one_intent(each: int, percent: float, *, one_each: bool, texts: int, trials: int) -> float:
    """Share of the ratio's intervals that lie below the truth, where so many texts are alike.

    A set of ``texts`` has clusters of ``each``; how hard a text is for an arm is the same all over
    its cluster. All of them are timed, or one of each cluster (``one_each``), in four processes.
    """
    draw = hard(together=1 if one_each else each)
    queries = texts // each if one_each else texts
    return passed(draw, Asked("ratio", percent, 1), queries, trials)
