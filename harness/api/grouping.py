"""Which queries depend on each other, for runs that are no data set of ours."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.records import Query
from harness.corpus import clusters


def near_duplicates(queries: Mapping[str, str]) -> Mapping[str, str]:
    """Name the cluster of each query whose words another one nearly has too, by its id.

    ``queries`` are texts by id. Give it to ``compare`` and ``leaderboard`` as ``intents``: the
    gates of a policy do the same where nobody names an intent.
    """
    asked = tuple(Query(query_id, text) for query_id, text in queries.items())
    return clusters.of_queries(asked, clusters.near_duplicates(asked))
