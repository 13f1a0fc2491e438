"""How sure a mean over queries is: the bias-corrected and accelerated bootstrap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate

PICKS_AT_ONCE = 1 << 20
FEWEST = 2
TIE = 1e-12


def bca(
    values: NDArray[np.float64],
    *,
    confidence: float,
    resamples: int,
    seed: int,
    clusters: NDArray[np.int64] | None,
) -> Estimate:
    """Mean of ``values``, shape (queries,), with its two-sided BCa interval.

    Efron, "Better bootstrap confidence intervals", JASA 82 (1987). With ``clusters``, shape
    (queries,), queries of one code are drawn together and left out together, and the mean is the
    ratio of the drawn sums to the drawn sizes. Values without spread give an interval of no
    width: whoever reads it must ask for enough queries first. Draws are made in blocks, so memory
    does not grow with ``resamples``.

    Raises:
        EvidenceError: fewer than two queries (or clusters), or a value is not finite.
    """
    if not np.isfinite(values).all():
        raise EvidenceError("a value is NaN or infinite; nothing may be said of its mean")
    sums, sizes = by_cluster(values, clusters)
    if len(sums) < FEWEST:
        raise EvidenceError(
            f"{len(sums)} independent queries have no spread to learn from; ask at least {FEWEST}"
        )
    if np.ptp(values) == 0:
        same = float(values[0])
        return Estimate(same, same, same, len(values))
    mean = float(values.mean())
    means = _resampled(sums, sizes, resamples, np.random.default_rng(seed))
    tie = TIE * float(np.abs(values).max())
    below = (means < mean - tie).mean()
    equal = (np.abs(means - mean) <= tie).mean()
    bias = ndtri(np.clip(below + equal / 2, 0.5 / resamples, 1 - 0.5 / resamples))
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    pull = left_out.mean() - left_out
    squares = (pull**2).sum()
    acceleration = (pull**3).sum() / (6 * squares**1.5) if squares else 0.0
    tail = (1 - confidence) / 2
    reach = bias + ndtri(np.array([tail, 1 - tail]))
    low, high = np.quantile(means, ndtr(bias + reach / (1 - acceleration * reach)))
    return Estimate(mean, float(low), float(high), len(values))


def by_cluster(
    values: NDArray[np.float64], clusters: NDArray[np.int64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and size of each cluster, shape (clusters,); of each value where there are none."""
    if clusters is None:
        return values, np.ones(len(values))
    _, code = np.unique(clusters, return_inverse=True)
    found: NDArray[np.float64] = np.bincount(code, weights=values).astype(np.float64)
    return found, np.bincount(code).astype(np.float64)


def _resampled(
    sums: NDArray[np.float64],
    sizes: NDArray[np.float64],
    resamples: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Means of ``resamples`` draws with replacement, shape (resamples,)."""
    units = len(sums)
    means = np.empty(resamples)
    block = max(1, PICKS_AT_ONCE // units)
    alike = bool((sizes == sizes[0]).all())
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        picks = rng.integers(0, units, size=(stop - start, units))
        drawn = units * sizes[0] if alike else sizes.take(picks).sum(axis=1)
        means[start:stop] = sums.take(picks).sum(axis=1) / drawn
    return means
