"""Bounds for means of bounded values, side by side; and a search for where ours breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from benchmarks.adversaries import ALIKE, UNLIKE, Floats, families, steps
from benchmarks.simulated_differences import CONFIDENCE, SEED
from harness.gates.base.rules import TOUCH
from harness.stats.bootstrap import bca_each
from harness.stats.bounded import Span, chance_above

LEVEL = (1 - CONFIDENCE) / 2
DIFFERENCES = Span(-1.0, 1.0)
BETS, RESAMPLES = 20, 1_000
UNLIKELY = -25.0
"""Logarithm of a chance that nothing is lost by leaving out."""
Said = NDArray[np.bool_]


def gaffke(values: Floats, limit: float) -> Said:
    """Say of each column whether the bound of ``harness.stats.bounded`` lies above ``limit``."""
    return chance_above(values, limit + TOUCH, span=DIFFERENCES, level=LEVEL, clusters=None) < LEVEL


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


def bootstrap(values: Floats, limit: float) -> Said:
    """Say the same by the BCa bootstrap alone, as it was before."""
    estimates = bca_each(
        values, confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED, clusters=None
    )
    return np.array([one.low > limit + TOUCH for one in estimates])


WAYS: dict[str, Callable[[Floats, float], Said]] = {
    "BCa alone": bootstrap,
    "betting": betting,
    "Gaffke": gaffke,
}


def contenders(
    queries: int, margin: float, trials: int
) -> dict[str, tuple[float, str, float, float]]:
    """Give by way: the most that a family passes at ``-margin``, its name, and two powers.

    They are shares of PASS at no difference, of engines that are alike and that are not.
    """
    found = {}
    for name, way in WAYS.items():
        wrong: list[tuple[float, str]] = []
        for number, family in enumerate(families()):
            rng = np.random.default_rng((SEED, number, queries))
            values = family.draw(rng, (queries, trials), -margin)
            if family.size == 1 and values is not None:
                wrong.append((float(way(values, -margin).mean()), family.name))
        right = []
        for moved in (ALIKE, UNLIKE):
            values = steps(np.random.default_rng(SEED), (queries, trials), 0.0, moved=moved)
            assert values is not None, moved  # noqa: S101  no mean is easier than 0
            right.append(float(way(values, -margin).mean()))
        found[name] = (*max(wrong), right[0], right[1])
    return found


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
