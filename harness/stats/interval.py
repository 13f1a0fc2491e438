"""How sure a mean over queries is: the interval that is shown and decided by."""

from __future__ import annotations

from harness.core.scores import Estimate
from harness.stats.bootstrap import Codes, Floats, bca_each
from harness.stats.bounded import Span, bounded_each
from harness.stats.inference import Inference


def interval(
    values: Floats,
    *,
    span: Span | None,
    inference: Inference,
    clusters: Codes | None,
) -> Estimate:
    """Mean of ``values``, shape (queries,), with its two-sided interval; see ``interval_each``."""
    (found,) = interval_each(
        values.reshape(-1, 1),
        span=span,
        inference=inference,
        clusters=clusters,
    )
    return found


def interval_each(
    values: Floats,
    *,
    span: Span | None,
    inference: Inference,
    clusters: Codes | None,
) -> tuple[Estimate, ...]:
    """Mean of each column of ``values``, shape (queries, columns), with its two-sided interval.

    It is the outer one of two intervals. The BCa bootstrap follows the sample's skewness, and the
    bound for values within ``span`` has room for unseen values (docs/decisions/0013). Where no span
    is known (None), it is the bootstrap alone, and nothing may be promoted by it.

    Raises:
        EvidenceError: as ``bca_each``; or a value is not within ``span``.
    """
    drawn = bca_each(
        values,
        confidence=inference.confidence,
        resamples=inference.resamples,
        seed=inference.seed,
        clusters=clusters,
        threads=inference.threads,
    )
    if span is None:
        return drawn
    ends = bounded_each(values, span=span, level=inference.level / 2, clusters=clusters)
    return tuple(
        _outer(one, float(low), float(high)) for one, low, high in zip(drawn, *ends, strict=True)
    )


def _outer(one: Estimate, low: float, high: float) -> Estimate:
    return Estimate(one.value, min(one.low, low), max(one.high, high), one.n)
