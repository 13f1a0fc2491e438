"""Write the pool of a comparison: what somebody should judge, the most decisive first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from harness.core.durable.journal import completed
from harness.core.durable.owned import check_new
from harness.core.errors import EvidenceError, UnknownName
from harness.core.printable import one_line
from harness.core.run import Run, Status
from harness.corpus import pool as pools
from harness.corpus.pool import Pair, Pool
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.measures.unjudged.runs import bounding, cases, differences, narrowing
from harness.report.plain import snippet
from harness.stages.custody.proof import check_run
from harness.stages.layout import Layout

TITLE, SNIPPET = 200, 600
"""Longest texts of a document, in characters."""


class Pooled(NamedTuple):
    """What was written, and what the missing judgements leave open as it is."""

    pairs: int
    of: int
    """Pairs that would narrow the bounds."""
    queries: int
    worst: float
    best: float
    """Bounds of the mean difference, candidate - control."""


def pool(  # noqa: PLR0917  all of it is asked for
    layout: Layout, control: str, candidate: str, measure: str, size: int, path: Path
) -> Pooled:
    """Write at most ``size`` unjudged pairs into ``path``, and their texts beside it.

    Looked at are the queries that both arms answered and that have a value of ``measure`` as they
    are judged now (method, section 2). Pairs are ordered by how much they narrow the bounds of
    the mean difference, each judged alone; equals by query and document.

    Raises:
        NotOurs: ``path``, or the file beside it, is there already.
        EvidenceError: an arm was not replayed, or changed since; or nothing is left to judge.
        UnknownName: an arm has no run here, or a run has no bounds of ``measure``.
    """
    completed(path, within=(path.parent,))
    for file in (path, pools.beside(path)):
        check_new(file, reads=(layout.root,))
    known = sorted(path.stem for path in layout.manifests.glob("*.json"))
    for arm in (control, candidate):
        if known and arm not in known:
            raise UnknownName(f"arm that {layout.root.name} was run with", arm, known)
        check_run(layout, arm)
    data = Prepared.open(layout.data)
    qrels = data.qrels()
    wanted = bounding(measure, qrels)
    runs = read_run(layout.run(control)), read_run(layout.run(candidate))
    answered = frozenset(_answered(runs[0])) & frozenset(_answered(runs[1]))
    both = tuple(query_id for query_id in qrels.query_ids if query_id in answered)
    ids = tuple(q for q, case in cases(*runs, qrels, both, 0) if wanted.defined(case))
    found = narrowing(*runs, qrels, measure, ids)
    if not found:
        raise EvidenceError(
            f"no judgement is missing that would move {measure} of {candidate} against {control};"
            " judge more queries instead"
        )
    chosen = sorted(found, key=lambda pair: (-found[pair], pair))[:size]
    asked = {query.query_id: query for query in data.queries()}
    shown = {doc_id for _, doc_id in chosen}
    documents = {d.doc_id: d for d in data.documents() if d.doc_id in shown}
    pairs = []
    for query_id, doc_id in chosen:
        query, document = asked[query_id], documents.get(doc_id)
        pairs.append(
            Pair(
                query_id=query_id,
                doc_id=doc_id,
                query=one_line(query.text),
                title=one_line(document.title, TITLE) if document else "",
                snippet=snippet(document.text, query.text, SNIPPET)
                if document
                else "not in the corpus",
                narrows=found[query_id, doc_id],
                scale=wanted.scale,
            )
        )
    pools.begin(path, Pool(tuple(pairs), (None,) * len(pairs)))
    worst, best = differences(*runs, qrels, measure, ids).mean(axis=0).tolist()
    return Pooled(len(pairs), len(found), len(ids), worst, best)


def _answered(run: Run) -> tuple[str, ...]:
    ended = zip(run.query_ids, run.status.tolist(), strict=True)
    return tuple(query_id for query_id, status in ended if status == Status.ANSWERED)
