"""The mean of one measure over the queries, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.core.scores import Estimate, Scores
from harness.stats.bootstrap import bca


def summarise(
    scores: Scores,
    *,
    confidence: float,
    resamples: int,
    seed: int,
    intents: Mapping[str, str],
    threads: int = 1,
) -> Estimate:
    """Mean over the queries that have a value, with its BCa interval (method, section 4).

    ``intents`` names the intent of a query by its id; queries of one intent are drawn together,
    and a query that is not in there is drawn alone.

    Raises:
        EvidenceError: fewer than two queries, or intents, have a value.
    """
    codes: dict[tuple[str, str], int] = {}
    clusters = np.array(
        [
            codes.setdefault(
                ("intent", intents[query_id]) if query_id in intents else ("query", query_id),
                len(codes),
            )
            for query_id in scores.query_ids
        ],
        dtype=np.int64,
    )
    return bca(
        scores.values,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        clusters=clusters if len(codes) < len(clusters) else None,
        threads=threads,
    )
