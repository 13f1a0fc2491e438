"""How often intervals, tests and gates are wrong about samples of a size that stood before."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.simulated_differences import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Case,
    Floats,
)
from harness.gates.base.rules import TOUCH
from harness.stats.bootstrap import bca_each
from harness.stats.resampling import drawn_sums

MARGIN = 0.02
AT_ONCE = 250


def coverage(case: Case, queries: int, trials: int) -> tuple[float, float, float, float]:
    """Shares of intervals that hold the mean, that lie above it, and that lie below it.

    The last is the share of plain BCa intervals, as Efron wrote them, that hold it.
    """
    rng = np.random.default_rng((SEED, queries))
    ours, theirs = [], []
    for start in range(0, trials, AT_ONCE):
        values = case.draw(rng, (queries, min(AT_ONCE, trials - start)))
        seed = SEED + start
        estimates = bca_each(
            values, confidence=CONFIDENCE, resamples=RESAMPLES, seed=seed, clusters=None
        )
        ours += [(each.low, each.high) for each in estimates]
        means = drawn_sums(values, resamples=RESAMPLES, seed=seed) / queries
        theirs += [plain(*each) for each in zip(values.T, means.T, strict=True)]
    low, high = np.array(ours).T
    above = float((low > case.mean + TOUCH).mean())
    below = float((high < case.mean - TOUCH).mean())
    low, high = np.array(theirs).T
    held = (low <= case.mean + TOUCH) & (case.mean - TOUCH <= high)
    return 1 - above - below, above, below, float(held.mean())


def plain(values: Floats, means: Floats) -> tuple[float, float]:
    """Give the ends of Efron's interval, without anything held back."""
    pull = values - values.mean()
    if not pull.any():
        return float(values[0]), float(values[0])
    near = np.isclose(means, values.mean(), rtol=0, atol=1e-12)
    bias = ndtri(((means < values.mean()) & ~near).mean() + near.mean() / 2)
    ends = bias + ndtri(np.array([0.025, 0.975]))
    low, high = np.quantile(
        means, ndtr(bias + ends / (1 - ends * (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)))
    )
    return float(low), float(high)
