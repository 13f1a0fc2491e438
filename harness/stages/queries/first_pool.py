"""The first pool of queries without judgements: what several engines show first.

Pooling to a depth is of Spärck Jones and van Rijsbergen (1975), and is how TREC judges. Later
pools come from a comparison (``harness pool``), which knows what a judgement would settle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.core.durable.journal import completed
from harness.core.durable.owned import check_new
from harness.core.printable import one_line
from harness.core.qrels import Qrels
from harness.core.records import Document, Query
from harness.corpus import pool as pools
from harness.corpus import prepared
from harness.corpus.pool import Pair, Pool
from harness.report.plain import snippet
from harness.stages.index import index
from harness.stages.judging.compared import SNIPPET, TITLE
from harness.stages.layout import Layout
from harness.stages.params import ReplayParams
from harness.stages.replay.stage import replay


class FirstPool(NamedTuple):
    """What was written."""

    pairs: int
    queries: int
    """Queries for which an engine shows anything."""


def first_pool(
    layout: Layout,
    documents: Sequence[Document],
    queries: Sequence[Query],
    *,
    arms: Iterable[str],
    cache: Path,
    params: ReplayParams,
    depth: int,
    largest: int,
    path: Path,
) -> FirstPool:
    """Write the first ``depth`` documents of each arm for each query into ``path``.

    Pairs of a query stand in a drawn order, so that a judge does not see which rank or arm they
    come from. Grades go from 0 to ``largest``.

    Raises:
        NotOurs: ``path``, or the file beside it, is there already.
        InvalidArm: an arm does not run.
    """
    completed(path, within=(path.parent,))
    for file in (path, pools.beside(path)):
        check_new(file)
    name = layout.root.name
    prepared.write(layout.data, name, "test", documents, queries, Qrels({}))
    shown: dict[str, set[str]] = {query.query_id: set() for query in queries}
    for arm in arms:
        index(layout, arm, cache)
        for row in replay(layout, arm, cache, params).rows():
            shown[row.query_id].update(hit.doc_id for hit in row.hits[:depth])
    known = {document.doc_id: document for document in documents}
    pairs = [
        _pair(query, known[doc_id], largest)
        for query in queries
        for doc_id in _drawn(shown[query.query_id], params.seed, query.query_id)
    ]
    pools.begin(path, Pool(tuple(pairs), (None,) * len(pairs)))
    return FirstPool(len(pairs), sum(map(bool, shown.values())))


def _drawn(doc_ids: set[str], seed: int, query_id: str) -> list[str]:
    found = sorted(doc_ids)
    Random(f"{seed} {query_id}").shuffle(found)
    return found


def _pair(query: Query, document: Document, largest: int) -> Pair:
    return Pair(
        query_id=query.query_id,
        doc_id=document.doc_id,
        query=one_line(query.text),
        title=one_line(document.title, TITLE),
        snippet=snippet(document.text, query.text, SNIPPET),
        narrows=0.0,
        scale=tuple(range(largest + 1)),
    )
