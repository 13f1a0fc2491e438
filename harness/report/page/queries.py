"""The queries that moved most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.evidence import Evidence
from harness.core.printable import one_line
from harness.core.records import Query
from harness.core.run import Status
from harness.core.scores import Paired
from harness.measures.decompose import decompose
from harness.report.inputs import ReportInput
from harness.report.page.cards import paired

DEPTH = 10
"""Ranks shown of each arm."""
DIGITS = 12
"""After which a part of a difference is rounding."""
TITLE = 120
SNIPPET = 180
QUERY = 400
"""Longest texts shown, in characters."""


@dataclass(frozen=True, slots=True)
class QueryChange:
    """One query that lost or gained."""

    query: Query
    control: float
    candidate: float
    shown: float
    """Part of the difference from documents that entered or left."""
    order: float
    """The rest, from the order of those that stayed."""


@dataclass(frozen=True, slots=True)
class Movers:
    """Queries of one comparison, the largest loss first, then the largest gain first."""

    worse: tuple[QueryChange, ...]
    better: tuple[QueryChange, ...]
    instead: str
    """Why there are none, in words; empty where there are some."""


def furthest(pairs: Paired, limit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Query ids that lost most and that gained most, at most ``limit`` each; equals by id."""
    found = sorted(zip(pairs.difference.tolist(), pairs.query_ids, strict=True))
    worse = [query_id for difference, query_id in found if difference < 0]
    better = [(-difference, query_id) for difference, query_id in found if difference > 0]
    return tuple(worse[:limit]), tuple(query_id for _, query_id in sorted(better)[:limit])


def move(rank: int, other: int | None, *, candidate: bool) -> str:
    """Return where a hit of one arm went, or came from: ``other`` is its rank in the other arm."""
    if other is None:
        return "new" if candidate else "gone"
    by = other - rank if candidate else rank - other
    if by == 0:
        return "same"
    return f"up {by}" if by > 0 else f"down {-by}"


def instead_of(status: Status, error: str) -> str:
    """Describe what stands where a query ended so and shows no hit."""
    match status:
        case Status.ANSWERED:
            return "found nothing"
        case Status.FAILED:
            return one_line(f"failed: {error or 'no reason given'}", QUERY)
        case Status.TIMED_OUT:
            return "timed out"
        case _:
            return "was not asked"


def movers(report: ReportInput, limit: int) -> Mapping[str, Movers]:
    """Collect the movers of every comparison, at most ``limit`` in each direction."""
    result: dict[str, Movers] = {}
    for name, evidence in report.evidence.items():
        pairs = paired(evidence, report.measure)
        if pairs is None or not len(pairs.difference):
            none = f"No query has a value of {report.measure} in both arms."
            result[name] = Movers((), (), none)
            continue
        worse, better = furthest(pairs, limit)
        none = "" if worse or better else f"No query moved in {report.measure}."
        lost, gained = (_moved(report, evidence, pairs, ids) for ids in (worse, better))
        result[name] = Movers(lost, gained, none)
    return result


def _moved(
    report: ReportInput, evidence: Evidence, pairs: Paired, ids: Sequence[str]
) -> tuple[QueryChange, ...]:
    if not ids:
        return ()
    values = dict(
        zip(pairs.query_ids, zip(pairs.control.tolist(), pairs.candidate.tolist(), strict=True),
            strict=True)
    )  # fmt: skip
    runs = evidence.control.run, evidence.candidate.run
    parts = decompose(*runs, report.qrels, report.measure, tuple(ids))
    taken = zip(parts.shown.round(DIGITS).tolist(), parts.order.round(DIGITS).tolist(), strict=True)
    return tuple(
        QueryChange(report.queries[query_id], *values[query_id], *each)
        for query_id, each in zip(ids, taken, strict=True)
    )
