"""The mean of a log's traffic from a stratified sample of its queries.

Each sampled query stands for the requests of its stratum. Its weight is its requests over its
inclusion probability (Horvitz and Thompson, JASA 47, 1952). The mean is the ratio of the weighted
sums (Hájek). The interval speaks of the log that was sampled. Its randomness is that of
the drawing, so queries need not be independent of each other, and a stratum that was taken whole
adds none.

The bootstrap draws one query less than the stratum has, with replacement, and scales the weights
for the share that was sampled (Rao, Wu and Yue, Survey Methodology 18, 1992). Each resampled mean
is divided by its own linearised deviation (bootstrap-t; Hall, Annals of Statistics 16, 1988). The
weights of traffic are skewed, so that quantiles of the means alone cover too little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.core.scores import Estimate
from harness.stats.inference import Inference

Floats = NDArray[np.float64]
AT_ONCE = 500
"""Resamples whose weights are held at once."""
FEWEST = 3
"""Of a sampled stratum: with two queries a resample is one of them, and has no deviation."""


class _Part(NamedTuple):
    """The sampled queries of one stratum, and the share of it that was sampled."""

    rows: NDArray[np.int64]
    rate: float


def traffic_mean_each(
    values: Floats, drawn: Sequence[Drawn], *, inference: Inference
) -> tuple[Estimate | None, ...]:
    """Mean over the requests of each column of ``values``, shape (queries, columns).

    A value that is NaN is of a query without one, such as one without a relevant document: the
    mean is over the requests of the others. None where fewer than two queries have a value. ``n``
    counts the sampled queries with one.

    Raises:
        EvidenceError: queries of one stratum have different inclusion probabilities.
    """
    weights = np.array([one.requests / one.inclusion for one in drawn])
    known = ~np.isnan(values)
    sums = np.where(known, values, 0.0) * weights[:, None]
    sizes = known * weights[:, None]
    parts = _parts(drawn)
    return tuple(
        _estimate(sums[:, at], sizes[:, at], parts, inference) if known[:, at].sum() > 1 else None
        for at in range(values.shape[1])
    )


def _parts(drawn: Sequence[Drawn]) -> list[_Part]:
    """Give the strata.

    Raises:
        EvidenceError: as ``traffic_mean_each``.
    """
    found: dict[str, list[int]] = {}
    for row, one in enumerate(drawn):
        found.setdefault(one.stratum, []).append(row)
    for name, rows in found.items():
        if len({drawn[row].inclusion for row in rows}) > 1:
            raise EvidenceError(
                f"queries of stratum {name} have different inclusion probabilities;"
                " give queries of one sample"
            )
    return [_Part(np.array(rows), drawn[rows[0]].inclusion) for rows in found.values()]


def _estimate(
    sums: Floats, sizes: Floats, parts: Sequence[_Part], inference: Inference
) -> Estimate:
    count, total = int((sizes > 0).sum()), float(sizes.sum())
    mean = float(sums.sum()) / total
    residuals = (sums - mean * sizes) / total
    random = [part for part in parts if part.rate < 1 and len(part.rows) >= FEWEST]
    variance = sum(
        (1 - part.rate) * len(part.rows) * float(residuals[part.rows].var(ddof=1))
        for part in parts
        if part.rate < 1 and len(part.rows) > 1
    )
    if not random or math.isclose(variance, 0, abs_tol=1e-300):
        reach = math.sqrt(variance) * _normal(inference.confidence)
        return Estimate(mean, mean - reach, mean + reach, count)
    ratios = np.concatenate([
        _studentised(sums - mean * sizes, sizes, random, start, inference)
        for start in range(0, inference.resamples, AT_ONCE)
    ])
    tail = inference.level / 2
    below, above = np.quantile(ratios, [tail, 1 - tail])
    spread = math.sqrt(variance)
    low, high = mean - float(above) * spread, mean - float(below) * spread
    return Estimate(mean, min(mean, low), max(mean, high), count)


def _studentised(
    around: Floats, sizes: Floats, random: Sequence[_Part], start: int, inference: Inference
) -> Floats:
    """Give (resampled mean - mean) over its own deviation, for the resamples from ``start`` on.

    ``around`` are the weighted differences from the mean.
    """
    rng = np.random.Generator(np.random.Philox(key=inference.seed, counter=[0, 0, 0, start]))
    rows = min(AT_ONCE, inference.resamples - start)
    top, bottom = np.full(rows, around.sum()), np.full(rows, sizes.sum())
    moments = []
    for part in random:
        size = len(part.rows)
        counts = rng.multinomial(size - 1, np.full(size, 1 / size), rows)
        of = np.column_stack([around[part.rows], sizes[part.rows]])
        drawn = counts @ of
        scale = math.sqrt(1 - part.rate)
        shift = scale * (drawn * size / (size - 1) - of.sum(axis=0))
        top, bottom = top + shift[:, 0], bottom + shift[:, 1]
        squares = counts @ np.column_stack([of[:, 0] ** 2, of[:, 0] * of[:, 1], of[:, 1] ** 2])
        moments.append((part, drawn, squares))
    moved = top / bottom
    variance = np.zeros(rows)
    for part, drawn, squares in moments:
        size = len(part.rows)
        second = squares[:, 0] - 2 * moved * squares[:, 1] + moved**2 * squares[:, 2]
        first = drawn[:, 0] - moved * drawn[:, 1]
        spread = np.maximum(0, second - first**2 / (size - 1)) / (size - 2)
        variance += (1 - part.rate) * size**2 / (size - 1) * spread
    usable = (variance > 0) & (bottom > 0)
    found: Floats = moved[usable] * bottom[usable] / np.sqrt(variance[usable])
    return found if len(found) else np.zeros(1)


def _normal(confidence: float) -> float:
    return float(ndtri(1 - (1 - confidence) / 2))
