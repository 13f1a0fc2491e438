"""``clusters.json``: which queries of a set are near duplicates, found once and kept with the set.

Stage ``prepare`` writes it, so that every later stage resamples the same queries together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core.clusters import BY_TEXT, Clustering
from harness.core.errors import BadFile
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Query
from harness.corpus.near_duplicates import GRAM, LEAST, stars

CLUSTERS = "clusters.json"
METHOD = {"format": 2, "characters": GRAM, "least_jaccard": LEAST}
HINT = "Run: harness prepare"
Groups = Sequence[Sequence[str]]
"""Query ids of each cluster of two or more, in the order of the query set."""


def near_duplicates(queries: Iterable[Query]) -> Groups:
    """Group the queries that have no intent by their texts; those alike in no group are left out.

    ``params`` set beside a text make no other query of it: the words are what is searched.
    """
    unnamed = [query for query in queries if query.intent is None]
    found: dict[int, list[str]] = {}
    for query, first in zip(unnamed, stars([q.text for q in unnamed]).tolist(), strict=True):
        found.setdefault(first, []).append(query.query_id)
    return [ids for ids in found.values() if len(ids) > 1]


def parted(queries: Iterable[Query]) -> Sequence[str]:
    """Name the queries with an intent whose words are nearly those of one of another cluster.

    Their intents tell them apart although their words are near duplicates.
    """
    known = list(queries)
    cluster = of_queries(known, near_duplicates(known))
    alike: dict[int, list[Query]] = {}
    for query, first in zip(known, stars([q.text for q in known]).tolist(), strict=True):
        alike.setdefault(first, []).append(query)
    clusters = {
        first: {cluster.get(q.query_id, q.query_id) for q in star} for first, star in alike.items()
    }
    found = {
        query.query_id
        for first, star in alike.items()
        for query in star
        if query.intent is not None and len(clusters[first]) > 1
    }
    return [query.query_id for query in known if query.query_id in found]


def write(path: Path, queries: Sequence[Query], queries_sha256: str) -> None:
    """Write the near duplicates of a query set, those intents part, and how they were found."""
    about = {
        **METHOD,
        "queries_sha256": queries_sha256,
        "near_duplicates": near_duplicates(queries),
    }
    write_json(path, {**about, "parted": parted(queries)})


class QueryClusters(NamedTuple):
    """What was found in a query set."""

    near_duplicates: Groups
    parted: Sequence[str]
    """Ids of near duplicates that intents part (``parted``)."""


def read(path: Path, queries_sha256: str) -> QueryClusters:
    """Read what ``write`` wrote of this query set.

    Raises:
        BadFile: it is missing, of other queries or of another method, or holds something else.
    """
    try:
        found = json_file(path)
        groups = [[str(query_id) for query_id in ids] for ids in found.pop("near_duplicates")]
        apart = [str(query_id) for query_id in found.pop("parted")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(path, f"no clusters of queries ({exc!r})", HINT) from exc
    if found != {**METHOD, "queries_sha256": queries_sha256}:
        raise BadFile(path, "the clusters are of other queries or of another method", HINT)
    return QueryClusters(groups, apart)


def of_queries(
    queries: Iterable[Query], near: Groups, how: Clustering = BY_TEXT
) -> Mapping[str, str]:
    """Name the cluster of each query that depends on another one, by its id.

    An intent that the set names wins; ``near`` are the near duplicates among the others.
    """
    if how == "none":
        return {}
    found = {q.query_id: f"intent {q.intent}" for q in queries if q.intent is not None}
    if how == BY_TEXT:
        found |= {query_id: f"like {ids[0]}" for ids in near for query_id in ids}
    return found
