"""How sure a mean over queries is: the interval that is shown and decided by."""

from __future__ import annotations

import numpy as np

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

    Values within ``span`` have the finite-sample bound of Gaffke, and gates decide by nothing else
    (docs/decisions/0013). Where no span is known (None) it is the BCa bootstrap, which describes
    a sample and promotes nothing.

    Raises:
        EvidenceError: no value, or one is not within ``span``; as ``bca_each`` without a span.
    """
    if span is None:
        return bca_each(
            values,
            confidence=inference.confidence,
            resamples=inference.resamples,
            seed=inference.seed,
            clusters=clusters,
            threads=inference.threads,
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
