"""Divergences with what both arms showed, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.printable import counted, one_line
from harness.core.run import Status
from harness.report.page.moved import DEPTH, QUERY, TITLE, move
from harness.report.rounding import milliseconds, number
from harness.report.shadow.words import what_was_typed
from harness.shadow.log.record import Divergence, LoggedAnswer
from harness.shadow.watch.diverging import Trace
from harness.shadow.watch.suppressions import BLOCKING, Standing


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of one arm."""

    rank: int
    doc_id: str
    score: str
    move: str
    """From control to candidate: ``up 3``, ``down 2``, ``same``, ``new``, ``gone``."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What one arm showed."""

    arm: str
    about: str
    """How long it took, and what it said of its answer."""
    hits: tuple[Hit, ...]
    instead: str
    """Why there are none, in words; empty where there are."""


@dataclass(frozen=True, slots=True)
class Both:
    """One query that diverged, in one class."""

    query: str
    """Its key."""
    text: str
    outcome: str
    about: str
    standing: str
    blocks: bool
    control: ShownAnswer | None
    """None where the log has no such divergence."""
    candidate: ShownAnswer | None


def side_by_side(
    shown: Sequence[tuple[Trace, Standing]], divergences: Mapping[tuple[str, int], Divergence]
) -> tuple[Both, ...]:
    """Put traces together with their divergences, by writer and number."""
    return tuple(
        _both(trace, standing, divergences.get((trace.writer, trace.number)))
        for trace, standing in shown
    )


def _both(trace: Trace, standing: Standing, divergence: Divergence | None) -> Both:
    about = [counted(trace.times, "time")]
    if trace.jaccard is not None:
        about.append(f"lowest Jaccard {number(trace.jaccard)}")
    about += [*trace.slices, trace.query]
    if divergence:
        about += [f"{name} = {value}" for name, value in sorted(divergence.params.items())]
    return Both(
        query=trace.query,
        text=what_was_typed(trace, QUERY),
        outcome=trace.outcome,
        about=" · ".join(about),
        standing=standing,
        blocks=standing in BLOCKING,
        control=_shown("control", divergence.control, divergence.candidate) if divergence else None,
        candidate=_shown("candidate", divergence.candidate, divergence.control)
        if divergence
        else None,
    )


def _shown(arm: str, side: LoggedAnswer, other: LoggedAnswer) -> ShownAnswer:
    ranks: dict[str, int] = {}
    for at, hit in enumerate(other.hits, start=1):
        ranks.setdefault(hit.doc_id, at)
    hits = tuple(
        Hit(
            rank=rank,
            doc_id=one_line(hit.doc_id, TITLE),
            score=number(hit.score),
            move=move(rank, ranks.get(hit.doc_id), candidate=arm == "candidate"),
        )
        for rank, hit in enumerate(side.hits[:DEPTH], start=1)
    )
    took = "time unknown" if side.elapsed_ns is None else f"{milliseconds(side.elapsed_ns)} ms"
    about = [took, counted(len(side.hits), "hit")]
    about += [one_line(side.note, QUERY)] if side.note else []
    return ShownAnswer(arm, " · ".join(about), hits, "" if hits else _instead(side))


def _instead(side: LoggedAnswer) -> str:
    match side.status:
        case Status.ANSWERED:
            return "found nothing"
        case Status.FAILED:
            return one_line(f"failed: {side.error or 'no reason given'}", QUERY)
        case Status.TIMED_OUT:
            return one_line(f"was given up: {side.error or 'too slow'}", QUERY)
        case _:
            return "was not asked"
