"""A shadow log as evidence: counts and confidence sequences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from harness.agreement import Class
from harness.core.errors import EvidenceError
from harness.core.evidence import LOST, Traffic
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow.log import Read
from harness.shadow.record import AGREED, SKIPPED, Observation, Seen
from harness.stats.sequential import BettingSequence


def overlaps(observations: Iterable[Observation]) -> Iterator[float]:
    """Jaccard@k of each compared pair that has one; two empty lists have none."""
    return (one.jaccard for one in observations if one.jaccard is not None)


def differing(observations: Iterable[Observation]) -> Iterator[float]:
    """1 for each compared pair whose lists differ, also by a tie alone; 0 for one that agrees."""
    return (float(one.outcome not in AGREED) for one in observations if one.compared)


def failures(observations: Iterable[Observation]) -> Iterator[float]:
    """1 where the candidate failed or was too slow though the control answered; 0 where both did.

    A control that failed says nothing about the candidate.
    """
    for one in observations:
        if one.control is None or one.candidate is None or one.control.status != Status.ANSWERED:
            continue
        yield float(one.candidate.status != Status.ANSWERED)


def slower(observations: Iterable[Observation], ratio: float) -> Iterator[float]:
    """1 where the candidate took more than ``ratio`` times what the control took; else 0.

    Of pairs of which both answered, each on its own clock; a time that is not known has no value.
    """
    for one in observations:
        if one.compared and one.control is not None and one.candidate is not None:
            ours, theirs = one.control.elapsed_ns, one.candidate.elapsed_ns
            if ours is not None and theirs is not None:
                yield float(theirs > ratio * ours)


def sure(values: Iterable[float], confidence: float) -> Estimate | None:
    """Bound the mean of ``values`` by a betting sequence; None without a value."""
    sequence = BettingSequence(confidence=confidence, least=0, most=1)
    count = 0
    for value in values:
        sequence.update(value)
        count += 1
    return sequence.interval() if count else None


OTHER_CONTROL = "whose control was another engine"
NO_CONTROL = "whose control did not answer"
IN_ITS_PLACE = "answered by another engine"
NS_PER_S = 1_000_000_000


def traffic(log: Read, *, control: str, candidate: str) -> Traffic:
    """Count what ``log`` has of two arms, which are known by their fingerprints.

    An attempt counts where the control answered as itself and no index moved. The candidate
    failed where it raised, was given up or ended, and where another engine answered in its place.
    """
    if not log.observations:
        raise EvidenceError("the log has no attempt; compare the arms on live queries first")
    passed_over: Counter[str] = Counter({LOST: log.missing} if log.missing else {})
    failures: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    clients: defaultdict[str, Counter[str]] = defaultdict(Counter)
    failed: list[tuple[bool, int]] = []
    overlap: dict[int, list[tuple[float, int]]] = {}
    times: list[tuple[int, int, int]] = []
    for seen in log.observations:
        ours, theirs = seen.control, seen.candidate
        if reason := _passed_over(seen, control):
            passed_over[reason] += 1
            continue
        if ours is None or theirs is None or theirs.status is Status.NOT_ASKED:
            passed_over[seen.reason or Class.SKIPPED] += 1
            continue
        asked[seen.query] += 1
        clients[seen.writer][seen.client] += 1
        how = _failure(theirs, candidate)
        failed.append((bool(how), seen.at))
        if how:
            failures[how] += 1
        elif seen.jaccard is not None:
            overlap.setdefault(seen.k, []).append((seen.jaccard, seen.at))
        timed = not how or theirs.status is Status.TIMED_OUT
        if timed and ours.elapsed_ns is not None and theirs.elapsed_ns is not None:
            times.append((ours.elapsed_ns, theirs.elapsed_ns, seen.at))
    pairs = np.array(times, dtype=np.int64).reshape(-1, 3)
    return Traffic(
        attempted=len(log.observations) + log.missing,
        passed_over=dict(sorted(passed_over.items())),
        asked=np.array([count for _, count in asked.most_common()], dtype=np.int64),
        largest_client=sum(
            max((count for name, count in own.items() if name), default=0)
            for own in clients.values()
        ),
        unnamed=sum(own[""] for own in clients.values()),
        failed=np.array([bad for bad, _ in failed], dtype=bool),
        failed_at=np.array([at for _, at in failed], dtype=np.int64),
        failures=dict(sorted(failures.items())),
        overlap={
            k: np.array([value for value, _ in found]) for k, found in sorted(overlap.items())
        },
        overlap_at={
            k: np.array([at for _, at in found], dtype=np.int64)
            for k, found in sorted(overlap.items())
        },
        control_ns=pairs[:, 0],
        candidate_ns=pairs[:, 1],
        timed_at=pairs[:, 2],
        since=_when(log.observations[0].at),
        until=_when(max(seen.at for seen in log.observations)),
    )


def _passed_over(seen: Observation, control: str) -> str:
    """Describe why an attempt tells nothing of the two arms; empty where it does."""
    if seen.outcome in SKIPPED:
        return seen.outcome.value
    if seen.control is None or seen.control.status is not Status.ANSWERED:
        return NO_CONTROL
    return "" if seen.control.served_by == control else OTHER_CONTROL


def _failure(candidate: Seen, fingerprint: str) -> str:
    if candidate.status is not Status.ANSWERED:
        return candidate.status.name.lower().replace("_", " ")
    return "" if candidate.served_by == fingerprint else IN_ITS_PLACE


def _when(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NS_PER_S, tz=UTC).isoformat()


MOST = 400
"""Points kept of one sequence; when there are more, every second one is dropped."""


@dataclass(frozen=True, slots=True)
class Point:
    """How sure a mean was after one attempt."""

    at: int
    """When it was, nanoseconds since 1970 in UTC."""
    estimate: Estimate


class Track:
    """Remembers what a sequence said, at evenly spread counts of values."""

    def __init__(self, said: Callable[[], Estimate]) -> None:
        self._said = said
        self._every = 1
        self._count = 0
        self._points: list[Point] = []
        self._at = 0

    def mark(self, at: int) -> None:
        """Note that the sequence took a value at ``at``, nanoseconds since 1970 in UTC."""
        self._count += 1
        self._at = at
        if self._count % self._every:
            return
        self._points.append(Point(at, self._said()))
        if len(self._points) > MOST:
            del self._points[::2]
            self._every *= 2

    @property
    def now(self) -> Estimate | None:
        """What it says now; None before the first value."""
        return self._said() if self._count else None

    @property
    def points(self) -> tuple[Point, ...]:
        """Its past, and how it stands now as the last point."""
        kept = self._points
        if self._count and (not kept or kept[-1].estimate.n != self._said().n):
            kept = [*kept, Point(self._at, self._said())]
        return tuple(kept)
