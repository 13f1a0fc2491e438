"""Clusters of queries that put one need in other words, for runs from outside."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.records import Query
from harness.corpus import clusters


def near_duplicates(queries: Mapping[str, str]) -> Mapping[str, str]:
    """Give the cluster of each near-duplicate query, by its id.

    ``queries`` are texts by id. Give it to ``compare`` and ``leaderboard`` as ``intents``: the
    gates of a policy do the same for queries without an intent.
    """
    asked = tuple(Query(query_id, text) for query_id, text in queries.items())
    return clusters.of_queries(asked, clusters.near_duplicates(asked))
