"""``clusters.json``: which queries of a set are one need, found once and kept with the set.

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
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.corpus.near_duplicates import METHOD, stars
from harness.corpus.similar import NONE, Similar

CLUSTERS = "clusters.json"
HINT = "Run: harness prepare"
Groups = Sequence[Sequence[str]]
"""Query ids of each cluster of two or more, in the order of the query set."""


class DataSha256(NamedTuple):
    """What clusters were found in."""

    queries_sha256: str
    qrels_sha256: str


def near_duplicates(
    queries: Iterable[Query], qrels: Qrels | None = None, similar: Similar = NONE
) -> Groups:
    """Group the queries that have no intent; those alike in no group are left out.

    ``params`` set beside a text make no other query of it: the words are what is searched.
    """
    unnamed = [query for query in queries if query.intent is None]
    found: dict[int, list[str]] = {}
    for query, first in zip(unnamed, _stars(unnamed, qrels, similar), strict=True):
        found.setdefault(first, []).append(query.query_id)
    return [ids for ids in found.values() if len(ids) > 1]


def _stars(queries: Sequence[Query], qrels: Qrels | None, similar: Similar) -> list[int]:
    grades = qrels.grades if qrels else {}
    judged = [
        frozenset(doc for doc, grade in grades.get(query.query_id, {}).items() if grade > 0)
        for query in queries
    ]
    place = {query.query_id: at for at, query in enumerate(queries)}
    pairs = [(place[a], place[b]) for a, b, _ in similar.pairs if a in place and b in place]
    found = stars([query.text for query in queries], judged, pairs)
    return [int(first) for first in found]


def parted(
    queries: Iterable[Query], qrels: Qrels | None = None, similar: Similar = NONE
) -> Sequence[str]:
    """Name the queries with an intent that are one need with one of another cluster.

    Their intents tell them apart although their words, documents or vectors are nearly the same.
    """
    known = list(queries)
    cluster = of_queries(known, near_duplicates(known, qrels, similar))
    alike: dict[int, list[Query]] = {}
    for query, first in zip(known, _stars(known, qrels, similar), strict=True):
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


def write(
    path: Path, queries: Sequence[Query], qrels: Qrels, sha256: DataSha256, similar: Similar
) -> None:
    """Write the clusters of a query set, those that intents part, and how they were found."""
    about = {
        "method": METHOD,
        **sha256._asdict(),
        "similar": similar.as_json(),
        "near_duplicates": near_duplicates(queries, qrels, similar),
    }
    write_json(path, {**about, "parted": parted(queries, qrels, similar)})


class QueryClusters(NamedTuple):
    """What was found in a query set."""

    near_duplicates: Groups
    parted: Sequence[str]
    """Ids of queries of one need that intents part (``parted``)."""
    similar: Similar
    """Pairs that a model found, as they were recorded."""


def read(path: Path, sha256: DataSha256) -> QueryClusters:
    """Read what ``write`` wrote of these queries and judgements.

    Raises:
        BadFile: it is missing, of other data or of another method, or holds something else.
    """
    try:
        found = json_file(path)
        groups = [[str(query_id) for query_id in ids] for ids in found.pop("near_duplicates")]
        apart = [str(query_id) for query_id in found.pop("parted")]
        similar = Similar.of(found.pop("similar"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(path, f"no clusters of queries ({exc!r})", HINT) from exc
    if found != {"method": METHOD, **sha256._asdict()}:
        raise BadFile(path, "the clusters are of other queries or of another method", HINT)
    return QueryClusters(groups, apart, similar)


def of_queries(
    queries: Iterable[Query], near: Groups, how: Clustering = BY_TEXT
) -> Mapping[str, str]:
    """Name the cluster of each query that depends on another one, by its id.

    An intent that the set names wins; ``near`` are the clusters among the others. The very same
    text is one query, whatever intent it claims, unless a policy gives a reason for intents alone.
    """
    if how == "none":
        return {}
    known = list(queries)
    found = {q.query_id: f"intent {q.intent}" for q in known if q.intent is not None}
    if how == BY_TEXT:
        found |= {query_id: f"like {ids[0]}" for ids in near for query_id in ids}
        _join_equal_texts(known, found)
    return found


def _join_equal_texts(queries: Sequence[Query], found: dict[str, str]) -> None:
    """Put one text into one cluster; that of an intent takes in the cluster of its twins."""
    owner: dict[str, str] = {}
    taken: dict[str, str] = {}
    for query in queries:
        if query.intent is not None:
            label = found[query.query_id]
            owner[query.text] = min(label, owner.get(query.text, label))
    for query in queries:
        if query.intent is None and query.text in owner and query.query_id in found:
            label, new = found[query.query_id], owner[query.text]
            taken[label] = min(new, taken.get(label, new))
    for query in queries:
        new = owner.get(query.text) or taken.get(found.get(query.query_id, ""), "")
        if new:
            found[query.query_id] = new
