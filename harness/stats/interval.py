"""Intervals of a mean over queries, of a share, and of a stratified mean."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.core.scores import Estimate
from harness.stats.bootstrap import Codes, bca_each
from harness.stats.bootstrap import Floats as FloatArray
from harness.stats.bounded import ValueRange, bounded_each, weighted_ends
from harness.stats.inference import Inference


def share(count: int, of: int, *, confidence: float) -> Estimate:
    """Share ``count / of`` with its exact interval (Clopper and Pearson, Biometrika 26, 1934)."""
    if of <= 0 or not 0 <= count <= of:
        raise EvidenceError(f"{count} of {of} is not a share; count at least one query")
    tail = (1 - confidence) / 2
    hits, misses = count, of - count
    low = float(betaincinv(hits, misses + 1, tail)) if count else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if count < of else 1.0
    return Estimate(count / of, low, high, of)


def size_for(count: int, *, ceiling: float, confidence: float) -> int:
    """Fewest queries for which ``count`` hits give an interval wholly below ``ceiling``."""
    if not 0 < ceiling < 1:
        raise EvidenceError(f"no number of queries shows a share below {ceiling}")
    low, high = count, max(1, math.ceil((count + 1) / ceiling))
    while share(count, high, confidence=confidence).high >= ceiling:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if share(count, middle, confidence=confidence).high < ceiling:
            high = middle
        else:
            low = middle
    return high


Floats = NDArray[np.float64]


class TrafficMean(NamedTuple):
    """A mean over the requests of a log."""

    estimate: Estimate
    """``n`` counts the sampled queries with a value."""
    share: float
    """Estimated share of the requests whose queries have a value; the mean is over these."""


def traffic_mean_each(
    values: Floats,
    drawn: Sequence[Drawn],
    *,
    spans: Sequence[ValueRange | None],
    inference: Inference,
) -> tuple[TrafficMean | None, ...]:
    """Mean over the requests of each column of ``values``, shape (queries, columns).

    ``spans`` has the least and the greatest value of each column. A value that is NaN is of a query
    without one, such as one without a relevant document: the mean is over the requests of the
    others. None where fewer than two queries have a value, or the span is unknown.
    """
    inclusion: dict[str, float] = {}
    for one in drawn:
        if inclusion.setdefault(one.stratum, one.inclusion) != one.inclusion:
            raise EvidenceError(
                f"queries of stratum {one.stratum} have different inclusion probabilities;"
                " give queries of one sample"
            )
    weights = np.array([one.requests / one.inclusion for one in drawn])
    open_share = np.sqrt(1 - np.array([one.inclusion for one in drawn]))
    found: list[TrafficMean | None] = []
    for column, span in zip(values.T, spans, strict=True):
        known = ~np.isnan(column)
        if span is None or known.sum() < 2:  # noqa: PLR2004  one query shows no spread
            found.append(None)
            continue
        estimate = _estimate(column[known], weights[known], open_share[known], span, inference)
        found.append(TrafficMean(estimate, float(weights[known].sum() / weights.sum())))
    return tuple(found)


def _estimate(
    values: Floats, weights: Floats, open_share: Floats, span: ValueRange, inference: Inference
) -> Estimate:
    """Bound the mean; what of the weights is known counts as it is."""
    total, moving = weights.sum(), weights * open_share
    mean = float((values @ weights) / total)
    random = moving > 0
    if not random.any():
        return Estimate(mean, mean, mean, len(values))
    known = float(values @ (weights - moving))
    ends = weighted_ends(values[random], moving[random], span=span, level=inference.level / 2)
    low, high = ((known + float(moving.sum()) * end) / float(total) for end in ends)
    return Estimate(mean, min(mean, low), max(mean, high), len(values))


def interval(
    values: FloatArray, *, span: ValueRange | None, inference: Inference, clusters: Codes | None
) -> Estimate:
    """Mean of ``values``, shape (queries,), with its two-sided interval; see ``interval_each``."""
    (found,) = interval_each(
        values.reshape(-1, 1), span=span, inference=inference, clusters=clusters
    )
    return found


def interval_each(
    values: FloatArray, *, span: ValueRange | None, inference: Inference, clusters: Codes | None
) -> tuple[Estimate, ...]:
    """Mean of each column of ``values``, shape (queries, columns), with its two-sided interval.

    Values within ``span`` have the finite-sample bound of Gaffke, and gates decide by nothing else
    (docs/decisions/0013). Where no span is known (None) it is the BCa bootstrap, which describes
    a sample and promotes nothing.
    """
    if span is None:
        return bca_each(
            values,
            confidence=inference.confidence,
            resamples=inference.resamples,
            seed=inference.seed,
            clusters=clusters,
        )
    ends = bounded_each(
        values,
        span=span,
        level=inference.level / 2,
        clusters=clusters,
        largest=inference.largest_cluster,
    )
    means = (float(column.mean()) for column in np.ascontiguousarray(values.T))
    return tuple(
        Estimate(mean, float(low), float(high), len(values))
        for mean, low, high in zip(means, *ends, strict=True)
    )
