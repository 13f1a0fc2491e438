"""How sure a mean over queries is: the interval that is shown and decided by."""

from __future__ import annotations

from harness.core.scores import Estimate
from harness.stats.bootstrap import Codes, Floats, bca_each
from harness.stats.bounded import Span, bounded_each


def interval(
    values: Floats,
    *,
    span: Span | None,
    confidence: float,
    resamples: int,
    seed: int,
    clusters: Codes | None,
    threads: int = 1,
) -> Estimate:
    """Mean of ``values``, shape (queries,), with its two-sided interval; see ``interval_each``."""
    (found,) = interval_each(
        values.reshape(-1, 1),
        span=span,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        clusters=clusters,
        threads=threads,
    )
    return found


def interval_each(
    values: Floats,
    *,
    span: Span | None,
    confidence: float,
    resamples: int,
    seed: int,
    clusters: Codes | None,
    threads: int = 1,
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
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        clusters=clusters,
        threads=threads,
    )
    if span is None:
        return drawn
    ends = bounded_each(values, span=span, level=(1 - confidence) / 2, clusters=clusters)
    return tuple(
        _outer(one, float(low), float(high)) for one, low, high in zip(drawn, *ends, strict=True)
    )


def _outer(one: Estimate, low: float, high: float) -> Estimate:
    return Estimate(one.value, min(one.low, low), max(one.high, high), one.n)
