"""Two runs that are compared, and pairs of query and document as people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.errors import UnknownName
from harness.core.printable import one_line
from harness.core.qrels import Qrels
from harness.core.run import Run, Status
from harness.corpus.pool import Pair
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.report.plain import snippet
from harness.stages.custody.proof import check_run
from harness.stages.layout import Layout

TITLE, SNIPPET = 200, 600
"""Longest texts of a document, in characters."""
Chosen = Mapping[tuple[str, str], float]
"""Pairs in their order, and what is expected of each."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared."""

    control: str
    candidate: str
    measure: str


class Runs(NamedTuple):
    """Both runs, and their queries that both answered."""

    control: Run
    candidate: Run
    qrels: Qrels
    ids: tuple[str, ...]


def read_runs(layout: Layout, compared: Compared, data: Prepared) -> Runs:
    """Read what two arms showed, and what is judged.

    Raises:
        EvidenceError: an arm was not replayed, or changed since.
        UnknownName: an arm has no run here.
    """
    known = sorted(path.stem for path in layout.manifests.glob("*.json"))
    for arm in (compared.control, compared.candidate):
        if known and arm not in known:
            raise UnknownName(f"arm that {layout.root.name} was run with", arm, known)
        check_run(layout, arm)
    pair = read_run(layout.run(compared.control)), read_run(layout.run(compared.candidate))
    answered = frozenset(_answered(pair[0])) & frozenset(_answered(pair[1]))
    return Runs(*pair, data.qrels(), tuple(q for q in pair[0].query_ids if q in answered))


def pairs_of(data: Prepared, chosen: Chosen, scale: Sequence[int]) -> tuple[Pair, ...]:
    """Give pairs with what people must see to judge them."""
    asked = {query.query_id: query for query in data.queries()}
    shown = {doc_id for _, doc_id in chosen}
    documents = {d.doc_id: d for d in data.documents() if d.doc_id in shown}
    pairs = []
    for (query_id, doc_id), narrows in chosen.items():
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
                narrows=narrows,
                scale=tuple(scale),
            )
        )
    return tuple(pairs)


def _answered(run: Run) -> tuple[str, ...]:
    ended = zip(run.query_ids, run.status.tolist(), strict=True)
    return tuple(query_id for query_id, status in ended if status == Status.ANSWERED)
