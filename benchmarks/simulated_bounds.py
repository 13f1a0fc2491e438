"""Bounds for means of bounded values, side by side; and a search for where ours breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from benchmarks.adversaries import Floats, families, steps
from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.gates.base.rules import TOUCH
from harness.stats.bounded import Span, chance_above, low_ends

LEVEL = (1 - CONFIDENCE) / 2
DIFFERENCES = Span(-1.0, 1.0)
BETS = 20
UNLIKELY = -25.0
"""Logarithm of a chance that nothing is lost by leaving out."""
Said = NDArray[np.bool_]


def gaffke(values: Floats, limit: float) -> Said:
    """Say of each column whether the bound of ``harness.stats.bounded`` lies above ``limit``."""
    return chance_above(values, limit + TOUCH, span=DIFFERENCES, clusters=None) < LEVEL


def betting(values: Floats, limit: float) -> Said:
    """Say the same by bets, of Waudby-Smith and Ramdas (2024), made for samples of a known size.

    The capital is the mean over a grid of bets of what each makes of all values: the same in every
    order, and at most 1 on average where the mean is the limit, so above 1 / level as rarely.
    """
    most = 1 / (limit + 1)
    capital = [
        np.log1p(bet * (values - limit)).sum(axis=0) for bet in np.linspace(0, most, BETS + 2)[1:-1]
    ]
    return np.asarray(logsumexp(capital, axis=0) - np.log(BETS) >= -np.log(LEVEL))


def plugged_in(values: Floats, limit: float) -> Said:
    """Compute the same by bets that learn from the values before, in the order of queries."""
    units, mean = (values + 1) / 2, (limit + 1) / 2
    at = np.arange(1, len(values) + 1)[:, None]
    centre = (0.5 + np.cumsum(units, axis=0)) / (at + 1)
    spread = (0.25 + np.cumsum((units - centre) ** 2, axis=0)) / (at + 1)
    before = np.concatenate([np.full((1, values.shape[1]), 0.25), spread[:-1]])
    bets = np.minimum(np.sqrt(-2 * np.log(LEVEL) / (before * len(values))), 0.75 / mean)
    capital = np.log1p(bets * (units - mean)).sum(axis=0)
    return np.asarray(capital >= -np.log(LEVEL))


def at_most_half(values: Floats, limit: float) -> Said:
    """Compute the same where a policy states that no query loses more than half, and none did.

    Where one was, the statement is refused, and the bound is Gaffke's.
    """
    found = gaffke(values, limit)
    kept = values.min(axis=0) >= -HALF
    if kept.any():
        span = Span(-HALF, 1.0)
        p_values = chance_above(values[:, kept], limit + TOUCH, span=span, clusters=None)
        found[kept] = p_values < LEVEL
    return found


def stratified(values: Floats, limit: float) -> Said:
    """Compute the same by four slices of equal size: each is bounded at a quarter of the level."""
    slices = np.array_split(values, SLICES)
    lows = [
        low_ends(one, span=DIFFERENCES, level=LEVEL / SLICES, clusters=None) * len(one)
        for one in slices
    ]
    return np.asarray(np.sum(lows, axis=0) / len(values) > limit)


WAYS: dict[str, Callable[[Floats, float], Said]] = {
    "Gaffke": gaffke,
    "losses of a half at most": at_most_half,
    "bets of fixed size": betting,
    "bets that learn": plugged_in,
    "four slices": stratified,
}
MARGIN, POWER, SLICES, HALF = 0.02, 0.8, 4, 0.5
NEARLY, FEWEST, MOST = 1.03, 60, 12_800


def wrong(way: str, queries: int, trials: int) -> tuple[float, str]:
    """Return the most that a family of independent queries passes at the margin, and its name."""
    found = []
    for number, family in enumerate(families()):
        rng = np.random.default_rng((SEED, number, queries))
        values = family.draw(rng, (queries, trials), -MARGIN)
        if family.size == 1 and values is not None:
            found.append((float(WAYS[way](values, -MARGIN).mean()), family.name))
    return max(found)


def needed(way: str, moved: float, trials: int) -> int | None:
    """Count the queries that pass an equal candidate of which so many move; None for too many."""
    low, high = FEWEST, MOST
    while high > NEARLY * low:
        middle = round((low * high) ** 0.5)
        values = steps(np.random.default_rng(SEED), (middle, trials), 0.0, moved=moved)
        assert values is not None, moved  # noqa: S101  no mean is easier than 0
        enough = WAYS[way](values, -MARGIN).mean() >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high if high < MOST else None


@dataclass(frozen=True, slots=True)
class Worst:
    """Values of a few kinds under which the bound is wrong most often, and how often."""

    chance: float
    kinds: Floats
    chances: Floats


def worst(queries: int, kinds: int, tries: int) -> Worst:
    """Search distributions of so many kinds of values for the highest chance of a false low end.

    Each is judged without draws: over every sample that it can give, with its chance. Half of the
    tries are new, half are moves from the worst yet.
    """
    rng = np.random.default_rng((SEED, queries, kinds))
    counts = np.array(list(_counts(queries, kinds)))
    ways = gammaln(queries + 1) - gammaln(counts + 1).sum(axis=1)
    best = Worst(0.0, np.zeros(kinds), np.full(kinds, 1 / kinds))
    for _ in range(tries):
        if rng.random() < 0.5 or best.chance == 0:  # noqa: PLR2004  half
            values = np.append(rng.uniform(-1, 1, kinds - 1), -1.0)
            chances = rng.dirichlet(np.full(kinds, rng.choice([0.3, 1.0, 3.0])))
        else:
            step = 0.1 ** rng.integers(1, 4)
            moved = best.kinds + rng.normal(0, step, kinds)
            values = np.append(np.clip(moved[:-1], -1, 1), -1.0)
            chances = best.chances * np.exp(rng.normal(0, 3 * step, kinds))
            chances /= chances.sum()
        chance = _false(values, chances, counts, ways)
        if chance > best.chance:
            best = Worst(chance, values, chances)
    return best


def exact_tail(kinds: Floats, counts: Floats, bound: float) -> float:
    """Return the exact chance that the Dirichlet-weighted mean lies below ``bound``.

    ``kinds`` are values, each there ``counts`` times, the unseen one among them. The chance that
    the sum of exponentials times (value - bound) is negative is the contour integral of its moment
    generating function over s, along the vertical line through the saddlepoint.
    """
    around = kinds - bound
    if around.max() <= 0 or around.min() >= 0:
        return float(around.max() <= 0)
    ends = 1 / around.min(), 1 / around.max()
    inside = 1 - 1e-13
    middle = brentq(
        lambda s: (counts * around / (1 - s * around)).sum(), ends[0] * inside, ends[1] * inside
    )
    width = 1 / np.sqrt((counts * (around / (1 - middle * around)) ** 2).sum())
    start = middle if abs(middle) > width / 10 else -min(width, -ends[0]) / 2
    along = np.linspace(0, 12, 1_201)
    s = start + 1j * width * np.sinh(along)
    moments = np.exp(-(counts * np.log(1 - s[:, None] * around)).sum(axis=1))
    heights = (moments / s).real * width * np.cosh(along)
    area = (along[1] - along[0]) * (heights.sum() - heights[0] / 2) / np.pi
    return float(-area if start < 0 else 1 - area)


def overstated(kinds: Floats, counts: NDArray[np.int64], level: float) -> float:
    """Return the exact level of the low end of values within 0 and 1, over ``level``."""
    values = np.repeat(kinds, counts).reshape(-1, 1)
    (low,) = low_ends(values, span=Span(0.0, 1.0), level=level, clusters=None)
    here = counts > 0
    return exact_tail(np.append(kinds[here], 0.0), np.append(counts[here], 1.0), float(low)) / level


def most_overstated(level: float, tries: int) -> tuple[float, Floats, NDArray[np.int64]]:
    """Search samples of up to four kinds for the highest ``overstated``; the rest moves from it."""
    rng = np.random.default_rng((SEED, round(1 / level)))
    best = (0.0, np.ones(1), np.ones(1, dtype=np.int64))
    for at in range(tries):
        if at % 3 == 0:
            kinds = rng.random(rng.integers(2, 5)) ** rng.choice([1, 3])
            queries = int(np.exp(rng.uniform(1, 7.4)))
            counts = rng.multinomial(queries, rng.dirichlet(np.full(len(kinds), 0.4)))
        else:
            step, many = 0.1 ** rng.integers(0, 3), len(best[1])
            kinds = np.clip(best[1] * np.exp(step * rng.normal(size=many)), 0, 1)
            moved = best[2] * np.exp(step * rng.normal(size=many)) + rng.integers(-1, 2, many)
            counts = np.clip(np.round(moved), 0, 3_000).astype(np.int64)
        if counts.sum() and kinds[counts > 0].max() > 0:
            found = overstated(kinds, counts, level)
            best = max(best, (found, kinds, counts), key=lambda one: one[0])
    return best


def _counts(queries: int, kinds: int) -> Iterator[tuple[int, ...]]:
    if kinds == 1:
        yield (queries,)
        return
    for first in range(queries + 1):
        for rest in _counts(queries - first, kinds - 1):
            yield (first, *rest)


def _false(values: Floats, chances: Floats, counts: NDArray[np.int64], ways: Floats) -> float:
    mean = float(values @ chances)
    logs = ways + counts @ np.log(np.maximum(chances, 1e-300))
    some = (logs > UNLIKELY) & (counts @ values / counts[0].sum() > mean + TOUCH)
    if not some.any():
        return 0.0
    columns = np.array([np.repeat(values, each) for each in counts[some]]).T
    return float(np.exp(logs[some][gaffke(columns, mean)]).sum())
