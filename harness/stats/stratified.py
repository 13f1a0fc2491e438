"""The mean of a log's traffic from a stratified sample of its queries.

Each sampled query stands for the requests of its stratum. Its weight is its requests over its
inclusion probability (Horvitz and Thompson, JASA 47, 1952). The mean is the ratio of the weighted
sums (Hájek). The interval speaks of the log that was sampled. Its randomness is that of
the drawing, so queries need not be independent of each other, and a stratum that was taken whole
adds none.

The interval is the bound of ``bounded`` over values of unequal weight. Of a stratum of which the
share f was sampled, the square root of 1 - f of each weight is random, and the rest is known. That
is the variance of a sample without replacement (Rao, Wu and Yue, Survey Methodology 18, 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.core.scores import Estimate
from harness.stats.bounded import Span, weighted_ends
from harness.stats.inference import Inference

Floats = NDArray[np.float64]


class TrafficMean(NamedTuple):
    """A mean over the requests of a log."""

    estimate: Estimate
    """``n`` counts the sampled queries with a value."""
    share: float
    """Estimated share of the requests whose queries have a value; the mean is over these."""


def traffic_mean_each(
    values: Floats, drawn: Sequence[Drawn], *, spans: Sequence[Span | None], inference: Inference
) -> tuple[TrafficMean | None, ...]:
    """Mean over the requests of each column of ``values``, shape (queries, columns).

    ``spans`` has the least and the greatest value of each column. A value that is NaN is of a query
    without one, such as one without a relevant document: the mean is over the requests of the
    others. None where fewer than two queries have a value, or the span is unknown.

    Raises:
        EvidenceError: queries of one stratum have different inclusion probabilities, or a value is
            not within its span.
    """
    _check(drawn)
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


def _check(drawn: Sequence[Drawn]) -> None:
    """Check that each stratum was drawn with one probability.

    Raises:
        EvidenceError: as ``traffic_mean_each``.
    """
    found: dict[str, float] = {}
    for one in drawn:
        if found.setdefault(one.stratum, one.inclusion) != one.inclusion:
            raise EvidenceError(
                f"queries of stratum {one.stratum} have different inclusion probabilities;"
                " give queries of one sample"
            )


def _estimate(
    values: Floats, weights: Floats, open_share: Floats, span: Span, inference: Inference
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
