"""The mean of one measure over the queries, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.clusters import codes
from harness.core.scores import Estimate, Scores
from harness.stats.bounded import Span
from harness.stats.interval import interval


def summarise(
    scores: Scores,
    *,
    span: Span | None,
    confidence: float,
    resamples: int,
    seed: int,
    clusters: Mapping[str, str],
    threads: int = 1,
) -> Estimate:
    """Mean over the queries that have a value, with its interval (method, section 4).

    ``span`` is of the values, as ``harness.measures.spans`` gives it.

    ``clusters`` names the cluster of a query by its id; queries of one cluster are drawn together,
    and a query that is not in there is drawn alone.

    Raises:
        EvidenceError: fewer than two queries, or clusters, have a value.
    """
    return interval(
        scores.values,
        span=span,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        clusters=codes(scores.query_ids, clusters),
        threads=threads,
    )
