"""The queries that moved most, with what both arms showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.evidence import ArmResult, Evidence
from harness.core.printable import one_line
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.core.scores import Paired
from harness.measures.decompose import decompose
from harness.report.inputs import ReportInput
from harness.report.page.cards import paired
from harness.report.rounding import number, signed, snippet

DEPTH = 10
"""Ranks shown of each arm."""
DIGITS = 12
"""After which a part of a difference is rounding."""
TITLE = 120
SNIPPET = 180
QUERY = 400
"""Longest texts shown, in characters."""


@dataclass(frozen=True, slots=True)
class MovedHit:
    """One hit of one arm."""

    rank: int
    doc_id: str
    title: str
    snippet: str
    grade: int | None
    """None if unjudged."""
    move: str
    """From control to candidate: ``up 3``, ``down 2``, ``same``, ``new``, ``gone``."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one arm showed for one query."""

    arm: str
    value: str
    hits: tuple[MovedHit, ...]
    instead: str
    """Reason for missing hits, in words; empty with hits."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One query and both rankings."""

    query_id: str
    text: str
    slices: tuple[str, ...]
    difference: str
    parts: str
    """How much of the difference is by what is shown, and how much by its order."""
    better: bool
    relevant: int
    control: Ranking
    candidate: Ranking


@dataclass(frozen=True, slots=True)
class Movers:
    """Queries of one comparison, the largest loss first, then the largest gain first."""

    worse: tuple[Moved, ...]
    better: tuple[Moved, ...]
    instead: str
    """Why there are none, in words; empty where there are some."""


def furthest(pairs: Paired, limit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Query ids that lost most and that gained most, at most ``limit`` each; equals by id."""
    found = sorted(zip(pairs.difference.tolist(), pairs.query_ids, strict=True))
    worse = [query_id for difference, query_id in found if difference < 0]
    better = [(-difference, query_id) for difference, query_id in found if difference > 0]
    return tuple(worse[:limit]), tuple(query_id for _, query_id in sorted(better)[:limit])


def needed(report: ReportInput, limit: int) -> frozenset[str]:
    """Ids of every document that the movers show."""
    found: set[str] = set()
    for evidence in report.evidence.values():
        pairs = paired(evidence, report.measure)
        if pairs is not None:
            for query_id in (q for side in furthest(pairs, limit) for q in side):
                found.update(evidence.control.run.ranking(query_id, DEPTH))
                found.update(evidence.candidate.run.ranking(query_id, DEPTH))
    return frozenset(found)


def move(rank: int, other: int | None, *, candidate: bool) -> str:
    """Say where a hit of one arm went, or came from: ``other`` is its rank in the other arm."""
    if other is None:
        return "new" if candidate else "gone"
    by = other - rank if candidate else rank - other
    if by == 0:
        return "same"
    return f"up {by}" if by > 0 else f"down {-by}"


def _ranking(
    report: ReportInput,
    side: ArmResult,
    other: ArmResult,
    query: Query,
    documents: Mapping[str, Document],
    *,
    candidate: bool,
) -> Ranking:
    score = side.scores[report.measure].by_query.get(query.query_id)
    ranks = {doc_id: at for at, doc_id in enumerate(other.run.ranking(query.query_id), start=1)}
    grades = report.qrels.grades.get(query.query_id, {})
    hits = []
    for rank, doc_id in enumerate(side.run.ranking(query.query_id, DEPTH), start=1):
        document = documents.get(doc_id)
        hits.append(
            MovedHit(
                rank=rank,
                doc_id=doc_id,
                title=one_line(document.title, TITLE) if document else "",
                snippet=snippet(document.text, query.text, SNIPPET)
                if document
                else "not in the corpus",
                grade=grades.get(doc_id),
                move=move(rank, ranks.get(doc_id), candidate=candidate),
            )
        )
    return Ranking(side.arm, number(score), tuple(hits), "" if hits else instead(side, query))


def instead(side: ArmResult, query: Query) -> str:
    """Say why an arm showed nothing; a failure is not an empty answer."""
    at = side.run.positions[query.query_id]
    return instead_of(Status(side.run.status[at]), side.run.errors[at])


def instead_of(status: Status, error: str) -> str:
    """Say what stands where a query ended so and shows no hit."""
    match status:
        case Status.ANSWERED:
            return "found nothing"
        case Status.FAILED:
            return one_line(f"failed: {error or 'no reason given'}", QUERY)
        case Status.TIMED_OUT:
            return "timed out"
        case _:
            return "was not asked"


def _parts(report: ReportInput, evidence: Evidence, ids: Sequence[str]) -> Mapping[str, str]:
    """Take the differences of some queries apart, in words."""
    if not ids:
        return {}
    runs = evidence.control.run, evidence.candidate.run
    parts = decompose(*runs, report.qrels, report.measure, ids)
    return {
        query_id: f"by what is shown {signed(shown)}, by its order {signed(order)}"
        for query_id, shown, order in zip(
            ids, parts.shown.round(DIGITS).tolist(), parts.order.round(DIGITS).tolist(), strict=True
        )
    }


def movers(report: ReportInput, limit: int) -> Mapping[str, Movers]:
    """Collect the movers of every comparison, at most ``limit`` in each direction."""
    documents = report.documents(needed(report, limit))

    def collect(evidence: Evidence, pairs: Paired, ids: Sequence[str]) -> tuple[Moved, ...]:
        gain = dict(zip(pairs.query_ids, pairs.difference.tolist(), strict=True))
        parts = _parts(report, evidence, tuple(ids))
        found = []
        for query_id in ids:
            query = report.queries[query_id]
            sides = evidence.control, evidence.candidate
            grades = report.qrels.grades.get(query_id, {})
            found.append(
                Moved(
                    query_id=query_id,
                    text=one_line(query.text, QUERY),
                    slices=query.slices,
                    difference=signed(gain[query_id]),
                    parts=parts[query_id],
                    better=gain[query_id] > 0,
                    relevant=sum(grade > 0 for grade in grades.values()),
                    control=_ranking(report, *sides, query, documents, candidate=False),
                    candidate=_ranking(report, *sides[::-1], query, documents, candidate=True),
                )
            )
        return tuple(found)

    result: dict[str, Movers] = {}
    for name, evidence in report.evidence.items():
        pairs = paired(evidence, report.measure)
        if pairs is None or not len(pairs.difference):
            none = f"No query has a value of {report.measure} in both arms."
            result[name] = Movers((), (), none)
            continue
        worse, better = furthest(pairs, limit)
        none = "" if worse or better else f"No query moved in {report.measure}."
        result[name] = Movers(
            collect(evidence, pairs, worse), collect(evidence, pairs, better), none
        )
    return result
