"""The mean of one measure over the queries, with its interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from harness.core.clusters import codes
from harness.core.scores import Estimate, Scores
from harness.stats.bounded import Span
from harness.stats.inference import Inference
from harness.stats.interval import interval_each


def summarise(
    scores: Scores,
    *,
    span: Span | None,
    inference: Inference,
    clusters: Mapping[str, str],
) -> Estimate:
    """Mean over the queries that have a value, with its interval (method, section 4).

    ``span`` is of the values, as ``harness.measures.spans`` gives it.

    ``clusters`` names the cluster of a query by its id; queries of one cluster are drawn together,
    and a query that is not in there is drawn alone.

    Raises:
        EvidenceError: no query has a value, or one is not within ``span``; without a span, fewer
            than two queries, or clusters, have one.
    """
    (found,) = summarise_each(
        [(scores, span)],
        inference=inference,
        clusters=clusters,
    )
    return found


def summarise_each(
    spanned: Sequence[tuple[Scores, Span | None]],
    *,
    inference: Inference,
    clusters: Mapping[str, str],
) -> tuple[Estimate, ...]:
    """Do as ``summarise`` for each, in order; those of the same queries and span share one draw.

    Raises:
        EvidenceError: as ``summarise``.
    """
    together = defaultdict[tuple[tuple[str, ...], Span | None], list[int]](list)
    for at, (scores, span) in enumerate(spanned):
        together[scores.query_ids, span].append(at)
    found: dict[int, Estimate] = {}
    for (query_ids, span), places in together.items():
        estimates = interval_each(
            np.column_stack([spanned[at][0].values for at in places]),
            span=span,
            inference=inference,
            clusters=codes(query_ids, clusters),
        )
        found.update(zip(places, estimates, strict=True))
    return tuple(found[at] for at in range(len(spanned)))
