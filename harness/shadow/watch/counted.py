"""A shadow log as evidence: what it counted of two arms, for gates that are read at any time."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime

import numpy as np

from harness.agreement.classes import Class
from harness.core.errors import EvidenceError
from harness.core.evidence import LOST, Traffic
from harness.core.run import Status
from harness.shadow.log.record import SKIPPED, Observation, Seen
from harness.shadow.log.streams import Read

OTHER_CONTROL = "whose control was another engine"
NO_CONTROL = "whose control did not answer"
IN_ITS_PLACE = "answered by another engine"
NS_PER_S = 1_000_000_000


def traffic(log: Read, *, control: str, candidate: str) -> Traffic:
    """Count what ``log`` has of two arms, which are known by their fingerprints.

    An attempt counts where the control answered as itself and no index moved. The candidate
    failed where it raised, was given up or ended, and where another engine answered in its place.

    Raises:
        EvidenceError: nothing was attempted.
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
    """Say why an attempt tells nothing of the two arms; empty where it does."""
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
