"""Divergences compared once more, offline: which are still there with the arms as they are now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.agreement.classes import Class, classify
from harness.agreement.pair import Pair
from harness.core.engine import Searcher
from harness.core.records import Query
from harness.core.run import Row, Run
from harness.replay.ask import observe
from harness.shadow.log.record import AGREED, Divergence


class Now(StrEnum):
    """Outcome of a divergence."""

    FIXED = "fixed"
    """Both arms show the same."""
    STILL = "still diverges"
    """In the class that was recorded."""
    CHANGED = "changed"
    """It diverges in another class."""


@dataclass(frozen=True, slots=True)
class Question:
    """One text with its params and depth, however often it diverged."""

    latest: Divergence
    """The latest record of it; the outcome is that of this one."""
    times: int


@dataclass(frozen=True, slots=True)
class Again:
    """One query, compared once more on both arms."""

    question: Question
    outcome: Class
    """How it ends now."""
    now: Now
    control_moved: bool
    """Whether the control shows other documents, or another order, than it did: its index or its
    settings are not those of the live comparison."""
    control: Row
    candidate: Row


def questions(divergences: Iterable[Divergence]) -> tuple[Question, ...]:
    """Put together what asks the same, those that came most often first; equals by their time."""
    found: dict[tuple[str, str, int], list[Divergence]] = {}
    for one in divergences:
        params = json.dumps(dict(one.params), sort_keys=True)
        found.setdefault((one.text, params, one.k), []).append(one)
    asked = [Question(max(same, key=_moment), len(same)) for same in found.values()]
    return tuple(sorted(asked, key=lambda each: (-each.times, _moment(each.latest))))


def again(
    found: Sequence[Question], control: Searcher, candidate: Searcher, *, time_limit_ns: int
) -> Iterator[Again]:
    """Ask both arms each query, and classify as the live comparison did (method, section 3).

    Each arm has its own clock. An exception is a failure of the arm, and no crash.
    """
    for question in found:
        one = question.latest
        query = Query("", one.text, params=one.params)
        rows = [observe(arm, query, one.k, time_limit_ns).row for arm in (control, candidate)]
        outcome = _class(rows[0], rows[1], one.k)
        yield Again(
            question=question,
            outcome=outcome,
            now=_became(one.outcome, outcome),
            control_moved=_ids(rows[0]) != [hit.doc_id for hit in one.control.hits],
            control=rows[0],
            candidate=rows[1],
        )


def counted(found: Iterable[Again]) -> Mapping[Now, int]:
    """Count the queries by their outcome; each name is there."""
    counts = dict.fromkeys(Now, 0)
    for one in found:
        counts[one.now] += 1
    return counts


def _class(control: Row, candidate: Row, k: int) -> Class:
    runs = Run.of("control", [control]), Run.of("candidate", [candidate])
    pair = Pair.of(*runs)
    return classify(*runs, pair, depth=k, shed=(), stale=())[0]


def _became(before: Class, after: Class) -> Now:
    if after in AGREED:
        return Now.FIXED
    return Now.STILL if after is before else Now.CHANGED


def _ids(row: Row) -> list[str]:
    return [hit.doc_id for hit in row.hits]


def _moment(one: Divergence) -> tuple[int, str, int]:
    return one.at, one.writer, one.number
