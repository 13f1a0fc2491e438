"""One query to one arm: what it shows, who answered, and how it came about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.engine import IMPORTED, Explained, Explains, Hit, Searcher, Staged
from harness.core.errors import EvidenceError, InvalidArm, UnknownName
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.corpus.prepared import Prepared
from harness.pipeline.index import check_index
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_same, read_manifest
from harness.replay.drive import Noted, observe, told
from harness_engines import registry as arms

NO_LIMIT_NS = 1 << 62
"""A person who asks one query waits."""
STAGE_DEPTH = 100
"""Hits asked of each stage at least: a hit that one stage has far below is still told of."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """What a stack says of its own answer."""

    ranks: Mapping[str, Mapping[str, int]]
    """By stage and document; empty where the stack tells of no stages."""
    explained: Explained | None

    def of(self, doc_id: str) -> tuple[Mapping[str, int | None], Mapping[str, Any] | None]:
        """Return a document's rank in each stage, and what the stack says of it."""
        why = self.explained.hits.get(doc_id) if self.explained else None
        return {stage: ranks.get(doc_id) for stage, ranks in self.ranks.items()}, why


NOTHING = Reasons({}, None)


@dataclass(frozen=True, slots=True)
class ShownHit:
    """One hit."""

    hit: Hit
    document: Document | None
    """None where the corpus has none of this id."""
    grade: int | None
    """None where no one judged it for this query."""
    ranks: Mapping[str, int | None]
    """By stage of the stack; None where it was not among the stage's first hundred."""
    why: Mapping[str, Any] | None
    """What the stack says of it; None where it says nothing."""


class Side(NamedTuple):
    """What one arm did with one query; it is not a measurement."""

    status: Status
    hits: tuple[Hit, ...]
    served_by: str
    note: str
    error: str
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """What one arm answered."""

    arm: str
    side: Side
    by_itself: bool | None
    """Whether the index that is open answered, and no fallback; None where no one answered."""
    hits: tuple[ShownHit, ...]
    explained: Explained | None


def typed(layout: Layout, query_id: str) -> Query:
    """Find a query of the data set."""
    queries = {query.query_id: query for query in Prepared.open(layout.data).queries()}
    if query_id not in queries:
        raise UnknownName("query", query_id, queries)
    return queries[query_id]


def ask(
    layout: Layout, names: tuple[str, ...], query: Query, k: int, cache: Path
) -> list[ArmAnswer]:
    """Open each arm over the data set's index, and ask it."""
    data = Prepared.open(layout.data)
    sides, owned, reasons = [], [], []
    for name in names:
        with _opened(layout, name, cache) as searcher:
            who = searcher.manifest.fingerprint
            sides.append(_asked(searcher, query, k))
            owned.append(sides[-1].served_by == who)
            reasons.append(_reasons(name, searcher, query, k) if not sides[-1].error else NOTHING)
    wanted = {hit.doc_id for side in sides for hit in side.hits}
    documents = {one.doc_id: one for one in data.documents() if one.doc_id in wanted}
    grades = data.qrels().grades.get(query.query_id, {})
    found = []
    for name, side, own, why in zip(names, sides, owned, reasons, strict=True):
        by_itself = own if side.status is Status.ANSWERED else None
        hits = tuple(
            ShownHit(hit, documents.get(hit.doc_id), grades.get(hit.doc_id), *why.of(hit.doc_id))
            for hit in side.hits
        )
        found.append(ArmAnswer(name, side, by_itself, hits, why.explained))
    return found


def _asked(searcher: Searcher, query: Query, k: int) -> Side:
    noted = Noted(searcher)
    seen = observe(noted, query, k, NO_LIMIT_NS)
    row = seen.row
    return Side(row.status, tuple(row.hits), row.served_by, noted.note, row.error, seen.elapsed_ns)


@contextmanager
def _opened(layout: Layout, name: str, cache: Path) -> Iterator[Searcher]:
    arm = arms.load(name, cache)
    if not layout.manifest(arm.name).is_file():
        check_index(layout, arm)  # its remedy names the file of an arm that has one
    made = read_manifest(layout, arm.name)
    if made.engine == IMPORTED:
        raise EvidenceError(f"{arm.name}: was imported as a run, so its engine cannot be queried")
    check_index(layout, arm)
    with arm.open(layout.index(arm.name)) as searcher:
        check_same(layout, arm.name, made, searcher.manifest)
        yield searcher


def _reasons(name: str, searcher: Searcher, query: Query, k: int) -> Reasons:
    text, params = query.text, query.params
    try:
        depth = max(k, STAGE_DEPTH)
        stages = told(searcher, query, depth) if isinstance(searcher, Staged) else ()
        why = searcher.explain(text, k, params) if isinstance(searcher, Explains) else None
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # a panic of a Rust engine is no Exception
        raise InvalidArm(f"{name}: answers, and cannot say why ({exc})") from exc
    ranks = {
        stage.name: {hit.doc_id: at for at, hit in enumerate(stage.hits, start=1)}
        for stage in stages
    }
    return Reasons(ranks, why)
