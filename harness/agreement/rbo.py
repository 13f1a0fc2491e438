"""Rank-biased overlap: agreement of two rankings that weighs the top more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.agreement.pair import Pair
from harness.agreement.partial import Partial
from harness.core.elementary import powers
from harness.core.errors import HarnessError


def rbo(pair: Pair, depth: int, p: float) -> Partial:
    """Extrapolated RBO of the lists cut at ``depth``, in [0, 1].

    Webber, Moffat and Zobel, "A similarity measure for indefinite rankings", TOIS 28 (2010),
    equation 32, which handles lists of different lengths. Ties in scores are not looked at: the
    rank is the truth. ``p`` is the chance that a reader goes on to the next rank. The value is 1
    exactly where one list starts with the other, since what a shorter list lacks is taken to agree.
    A truncation is therefore seen by Jaccard and by the class of the query, not here. One empty
    list gives 0; two are undefined.

    Raises:
        HarnessError: ``p`` is not between 0 and 1.
    """
    if not 0 < p < 1:
        raise HarnessError(f"the persistence of RBO must lie between 0 and 1, not at {p}")
    lengths = pair.lengths(depth)
    short, long = np.minimum(*lengths), np.maximum(*lengths)
    overlap = _overlap(pair, depth, int(long.max(initial=0)))
    d = np.arange(1, overlap.shape[1] + 1, dtype=np.float64)
    s = np.maximum(short, 1)[:, None]
    at_short, at_long = _at(overlap, short), _at(overlap, long)
    inside = d <= long[:, None]
    seen = np.where(inside, overlap / d, 0.0)
    assumed = np.where(inside & (d > s), at_short[:, None] * (d - s) / (s * d), 0.0)
    weights = powers(p, len(d))
    beyond = (at_long - at_short) / np.maximum(long, 1) + at_short / s[:, 0]
    found = (1 - p) / p * ((seen + assumed) * weights[1:]).sum(axis=1) + beyond * weights[long]
    defined = long > 0
    return Partial(defined, np.clip(found[defined], 0.0, 1.0))


def _overlap(pair: Pair, depth: int, deepest: int) -> NDArray[np.float64]:
    """X_d, the documents shared within the first d, in column d - 1; (queries, deepest)."""
    rank = pair.within(depth)
    rows, own = np.nonzero(rank < depth)
    met = np.maximum(rank[rows, own], own)
    new = np.bincount(rows * deepest + met, minlength=len(rank) * deepest)
    return np.cumsum(new.reshape(len(rank), deepest), axis=1).astype(np.float64)


def _at(overlap: NDArray[np.float64], depth: NDArray[np.int64]) -> NDArray[np.float64]:
    """X at one depth a query, 0 at depth 0; shape (queries,)."""
    padded = np.pad(overlap, ((0, 0), (1, 0)))
    return np.take_along_axis(padded, depth[:, None], axis=1)[:, 0]
