"""What the explorer shows of one query: both rankings, judgements, times and the documents.

Each document is stored once, by a number; a ranking is a row of numbers. The text is a beginning of
twice a snippet, from which the page cuts the snippet around the words of the query.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.printable import one_line
from harness.core.run import Run, Status
from harness.report.explore.stages import Stages, stages
from harness.report.inputs import Latency, ReportInput
from harness.report.links import named
from harness.report.page.latency_tables import is_verified
from harness.report.page.moved import DEPTH, SNIPPET, TITLE, instead_of

EXCERPT = 2 * SNIPPET
"""Longest beginning of a document that is stored, in characters."""


@dataclass(frozen=True, slots=True)
class ArmHits:
    """What one arm showed; lists are by query."""

    lengths: list[int]
    """Hits among the first ten."""
    docs: list[int]
    """Those hits, query after query, best first: places in ``Hits.ids``."""
    found: list[int]
    """Hits in the whole ranking."""
    instead: dict[int, str]
    """Reason for a missing list, in words, by query."""
    ranks: list[int]
    """Rank of each judgement of ``Hits.judged`` in the whole ranking; 0 where it is not there."""
    deeper: list[int]
    """The same of what other arms show and this one does not, in the order of ``distinct``."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long an arm took for the queries that were raced, in nanoseconds; lists are by query."""

    arm: int
    queries: list[int]
    median: list[int]
    low: list[int]
    high: list[int]
    again: list[int]
    """Median when the text came again; 0 where it did not."""
    processes: int


@dataclass(frozen=True, slots=True)
class Hits:
    """Everything about single queries of one data set."""

    snippet: int
    """Longest snippet, in characters."""
    ids: list[str]
    titles: list[str]
    texts: list[str | None]
    """None where the corpus has no such document."""
    lengths: list[int]
    """Judgements of each query that are listed: of what an arm shows, or relevant."""
    judged: list[int]
    grades: list[int]
    shown: list[ArmHits]
    """By arm."""
    distinct: list[int]
    """Documents of each query that some arm shows: those of the first arm, what the next adds..."""
    times: list[Times]
    unverified: list[int]
    """Arms whose times are not told: in the race they answered otherwise than in their run."""
    machine: str
    apart: list[Stages]


def hits(report: ReportInput) -> Hits:
    """Put rankings, judgements and documents into columns; each document is read once."""
    query_ids = tuple(report.queries)
    firsts = [_first(side.run, query_ids) for side in report.arms.values()]
    each = range(len(query_ids))
    seen = [tuple(dict.fromkeys(doc for first in firsts for doc in first[at])) for at in each]
    judged = [_judged(report, *one) for one in zip(query_ids, seen, strict=True)]
    needed = frozenset(doc_id for row in seen for doc_id in row)
    needed |= frozenset(doc_id for row in judged for doc_id in row)
    ids = sorted(needed)
    code = {doc_id: at for at, doc_id in enumerate(ids)}
    documents = report.documents(needed)
    found = [documents.get(doc_id) for doc_id in ids]
    latency = report.latency
    arms = list(report.arms)
    return Hits(
        snippet=SNIPPET,
        ids=[one_line(doc_id, TITLE) for doc_id in ids],
        titles=[one_line(one.title, TITLE) if one else "" for one in found],
        texts=[one_line(one.text, EXCERPT) if one else None for one in found],
        lengths=[len(row) for row in judged],
        judged=[code[doc_id] for row in judged for doc_id in row],
        grades=[grade for row in judged for grade in row.values()],
        shown=[_shown(side.run, query_ids, code, judged, seen) for side in report.arms.values()],
        distinct=list(map(len, seen)),
        times=_times(latency, arms, query_ids) if latency else [],
        unverified=[
            at
            for at, arm in enumerate(arms)
            if latency and arm in latency.race.elapsed_ns and not is_verified(latency, arm)
        ],
        machine=named(latency.race.machine) if latency else "",
        apart=stages(report),
    )


def _first(run: Run, query_ids: Sequence[str]) -> list[tuple[str, ...]]:
    """Give the first ten of every query."""
    asked = run.positions
    found = run.rankings([query_id for query_id in query_ids if query_id in asked], DEPTH)
    return [found.get(query_id, ()) for query_id in query_ids]


def _judged(report: ReportInput, query_id: str, seen: Collection[str]) -> dict[str, int]:
    """Grades of what some arm shows and of what is relevant, the best first."""
    grades = report.qrels.grades.get(query_id, {})
    listed = {doc: grade for doc, grade in grades.items() if grade > 0 or doc in seen}
    return dict(sorted(listed.items(), key=lambda one: (-one[1], one[0])))


def _shown(
    run: Run,
    query_ids: Sequence[str],
    code: Mapping[str, int],
    judged: Sequence[Mapping[str, int]],
    seen: Sequence[Sequence[str]],
) -> ArmHits:
    at = run.positions
    ends, docs = run.offsets.tolist(), run.docs.tolist()
    told = ArmHits(lengths=[], docs=[], found=[], instead={}, ranks=[], deeper=[])
    for number, query_id in enumerate(query_ids):
        row = at.get(query_id)
        if row is None:
            told.instead[number] = instead_of(Status.NOT_ASKED, "")
            ranking = []
        else:
            ranking = [run.vocabulary[doc] for doc in docs[ends[row] : ends[row + 1]]]
            if not ranking:
                told.instead[number] = instead_of(Status(run.status[row]), run.errors[row])
        first = ranking[:DEPTH]
        rank = {doc_id: place for place, doc_id in enumerate(ranking, start=1)}
        told.lengths.append(len(first))
        told.docs.extend(code[doc_id] for doc_id in first)
        told.found.append(len(ranking))
        told.ranks.extend(rank.get(doc_id, 0) for doc_id in judged[number])
        told.deeper.extend(rank.get(doc_id, 0) for doc_id in seen[number] if doc_id not in first)
    return told


def _times(latency: Latency, arms: Sequence[str], query_ids: Sequence[str]) -> list[Times]:
    """Tell the times by query of the arms whose rankings were verified (method, section 5)."""
    race = latency.race
    row = {query_id: at for at, query_id in enumerate(query_ids)}
    known = [at for at, query_id in enumerate(race.query_ids) if query_id in row]
    found = []
    for number, arm in enumerate(arms):
        if not is_verified(latency, arm) or arm not in race.elapsed_ns:
            continue
        times = race.elapsed_ns[arm][:, known]
        again = _middle(race.repeated_ns[arm])
        found.append(
            Times(
                arm=number,
                queries=[row[race.query_ids[at]] for at in known],
                median=_middle(times),
                low=times.min(axis=0).tolist(),
                high=times.max(axis=0).tolist(),
                again=[again[at] if at < len(again) else 0 for at in known],
                processes=len(times),
            )
        )
    return found


def _middle(times: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[int]:
    return [int(value) for value in np.median(times, axis=0)]
