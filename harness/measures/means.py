"""The mean over the queries that can be answered, and the mean that counts negatives as 0."""

from __future__ import annotations

from harness.core.scores import Scores


def mean_answerable(scores: Scores) -> float | None:
    """Mean over the queries that have a value; negative queries are left out (our mean)."""
    return scores.mean


def mean_all(scores: Scores) -> float | None:
    """Mean in which every negative query counts as 0, as in trec_eval.

    For comparison with published numbers only; None without queries.
    """
    queries = len(scores.values) + len(scores.undefined.get("negative_query", ()))
    return float(scores.values.sum()) / queries if queries else None
