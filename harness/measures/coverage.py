"""What became of every query that was asked: the counts that stand beside each mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import EvidenceError, InvalidArm
from harness.core.qrels import Qrels
from harness.core.run import Run, Status


@dataclass(frozen=True, slots=True)
class Coverage:
    """Query ids in the order asked; the first five part the query set, so do the last three."""

    answered: tuple[str, ...]
    """Answered with at least one hit."""
    empty: tuple[str, ...]
    """Answered, with nothing found: scores 0."""
    failed: tuple[str, ...]
    """The engine failed: no score."""
    timed_out: tuple[str, ...]
    """The engine was too slow: no score."""
    missing: tuple[str, ...]
    """Not in the run: scores 0, and is counted here."""
    answerable: tuple[str, ...]
    """Judged, with a relevant document."""
    negative: tuple[str, ...]
    """Judged, with none."""
    unjudged: tuple[str, ...]
    """Without any judgement."""


def coverage(run: Run, qrels: Qrels, asked: Sequence[str]) -> Coverage:
    """Sort the queries of ``asked`` by how they ended and by how they were judged.

    Raises:
        EvidenceError: no query was asked, or one twice.
        InvalidArm: the run answers none of them, so nothing may be said of its arm.
    """
    if not asked:
        raise EvidenceError(f"{run.arm}: the query set is empty; nothing can be scored")
    if len(set(asked)) != len(asked):
        twice = next(q for at, q in enumerate(asked) if q in asked[:at])
        raise EvidenceError(f"query {twice} is asked twice; keep one of the two")
    positions = run.positions
    lengths = run.lengths.tolist()
    ended: dict[str, list[str]] = {
        name: [] for name in ("answered", "empty", "failed", "timed_out", "missing")
    }
    for query_id in asked:
        row = positions.get(query_id)
        status = Status.NOT_ASKED if row is None else Status(run.status[row])
        if status is Status.ANSWERED:
            ended["answered" if row is not None and lengths[row] else "empty"].append(query_id)
        else:
            ended["missing" if status is Status.NOT_ASKED else status.name.lower()].append(query_id)
    if not ended["answered"] and not ended["empty"]:
        why = next((error for error in run.errors if error), "the run holds none of them")
        raise InvalidArm(
            f"{run.arm}: none of {len(asked)} queries was answered ({why});"
            " mend the arm and replay it"
        )
    judged = {query_id: max(qrels.grades[query_id].values()) > 0 for query_id in qrels.grades}
    return Coverage(
        **{name: tuple(ids) for name, ids in ended.items()},
        answerable=tuple(q for q in asked if judged.get(q) is True),
        negative=tuple(q for q in asked if judged.get(q) is False),
        unjudged=tuple(q for q in asked if q not in judged),
    )


def missing(run: Run, qrels: Qrels, asked: Sequence[str]) -> tuple[str, ...]:
    """Judged queries of ``asked`` that the run holds no answer for; each scores 0."""
    found = coverage(run, qrels, asked)
    unjudged = frozenset(found.unjudged)
    return tuple(query_id for query_id in found.missing if query_id not in unjudged)
