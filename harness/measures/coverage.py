"""Query outcomes: the counts that are shown with each mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, repeat

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError, InvalidArm
from harness.core.qrels import Qrels
from harness.core.run import Run, Status

UNJUDGED = float("nan")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Query ids in order; the first five fields partition the query set, as do the last three."""

    answered: tuple[str, ...]
    """Answered with at least one hit."""
    empty: tuple[str, ...]
    """Answered, with nothing found: scores 0."""
    failed: tuple[str, ...]
    """The engine failed: no score."""
    timed_out: tuple[str, ...]
    """The engine was too slow: no score."""
    missing: tuple[str, ...]
    """Not in the run: no score."""
    answerable: tuple[str, ...]
    """Judged, with a relevant document."""
    negative: tuple[str, ...]
    """Judged, with none."""
    unjudged: tuple[str, ...]
    """Without any judgement."""


def coverage(run: Run, qrels: Qrels, asked: Sequence[str]) -> Coverage:
    """Group the queries of ``asked`` by outcome and by judgement.

    Raises:
        EvidenceError: ``asked`` is empty, or repeats a query.
        InvalidArm: the run answers none of them.
    """
    if not asked:
        raise EvidenceError(f"{run.arm}: the query set is empty; nothing can be scored")
    if len(set(asked)) != len(asked):
        twice = next(q for at, q in enumerate(asked) if q in asked[:at])
        raise EvidenceError(f"query {twice} is in the set twice; keep one of the two")
    rows = np.fromiter(map(run.positions.get, asked, repeat(-1)), np.int64, len(asked))
    in_run = rows >= 0
    status = np.full(len(asked), Status.NOT_ASKED, dtype=np.uint8)
    status[in_run] = run.status[rows[in_run]]
    hits = np.zeros(len(asked), dtype=bool)
    hits[in_run] = run.lengths[rows[in_run]] > 0
    answered = status == Status.ANSWERED
    ended = {
        "answered": kept(asked, answered & hits),
        "empty": kept(asked, answered & ~hits),
        "failed": kept(asked, status == Status.FAILED),
        "timed_out": kept(asked, status == Status.TIMED_OUT),
        "missing": kept(asked, status == Status.NOT_ASKED),
    }
    if not ended["answered"] and not ended["empty"]:
        why = next((error for error in run.errors if error), "the run holds none of them")
        raise InvalidArm(
            f"{run.arm}: none of {len(asked)} queries was answered ({why});"
            " fix the arm and replay it"
        )
    best = {query_id: max(docs.values()) for query_id, docs in qrels.grades.items()}
    grades = np.fromiter(map(best.get, asked, repeat(UNJUDGED)), np.float64, len(asked))
    return Coverage(
        **ended,
        answerable=kept(asked, grades > 0),
        negative=kept(asked, grades <= 0),
        unjudged=kept(asked, np.isnan(grades)),
    )


def kept(asked: Sequence[str], keep: NDArray[np.bool_]) -> tuple[str, ...]:
    """Give the ids of ``asked`` where ``keep``, shape (asked,), is true."""
    return tuple(asked) if keep.all() else tuple(compress(asked, keep.tolist()))


def missing(run: Run, qrels: Qrels, asked: Sequence[str]) -> tuple[str, ...]:
    """Judged queries of ``asked`` that are not in the run; none has a score."""
    found = coverage(run, qrels, asked)
    unjudged = frozenset(found.unjudged)
    return tuple(query_id for query_id in found.missing if query_id not in unjudged)
