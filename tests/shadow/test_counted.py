"""What of a log tells about two arms, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.agreement import Class
from harness.core.errors import EvidenceError
from harness.core.evidence import LOST, Traffic
from harness.core.run import Status
from harness.shadow.evidence import IN_ITS_PLACE, NO_CONTROL, OTHER_CONTROL, count_traffic
from harness.shadow.log import LogContents
from harness.shadow.record import Observation, SideObservation
from tests.make.shadow_records import SEEN, observation

OURS = replace(SEEN, served_by="old", elapsed_ns=100)
THEIRS = replace(SEEN, served_by="new", elapsed_ns=300)


def pair(number: int, outcome: Class = Class.OVERLAP, **changed: object) -> Observation:
    return observation(number, outcome, **{"control": OURS, "candidate": THEIRS, **changed})


def failing(status: Status, **changed: object) -> SideObservation:
    return replace(THEIRS, status=status, hits=0, top=None, served_by="", **changed)  # type: ignore[arg-type]


def counted(*observations: Observation, missing: int = 0, control: str = "old") -> Traffic:
    return count_traffic(
        LogContents(observations, (), (), missing), control=control, candidate="new"
    )


def test_values_come_in_the_order_of_the_attempts() -> None:
    found = counted(
        pair(1, jaccard=0.5),
        pair(2, jaccard=1.0, k=20),
        pair(3, Class.ERROR, jaccard=None, candidate=failing(Status.FAILED)),
        pair(4, jaccard=0.25),
        pair(5, Class.BOTH_EMPTY, jaccard=None),
        pair(6, Class.TIMEOUT, jaccard=None, candidate=failing(Status.TIMED_OUT)),
    )
    assert {k: values.tolist() for k, values in found.overlap.items()} == {10: [0.5, 0.25], 20: [1]}
    assert found.failed.tolist() == [False, False, True, False, False, True]
    assert found.failures == {"failed": 1, "timed out": 1}
    assert found.control_ns.tolist() == [100] * 5
    assert found.candidate_ns.tolist() == [300] * 5
    assert found.passed_over == {}
    assert found.attempted == 6


def test_an_answer_of_another_engine_is_a_failure_and_no_overlap() -> None:
    other = replace(THEIRS, served_by="fallback")
    found = counted(pair(1), pair(2, candidate=other))
    assert found.failures == {IN_ITS_PLACE: 1}
    assert len(found.overlap[10]) == 1
    assert len(found.control_ns) == 1


def test_what_tells_nothing_of_the_two_is_counted_beside() -> None:
    found = counted(
        pair(1),
        pair(2, Class.SHED, reason="queue full", candidate=None, jaccard=None),
        pair(3, Class.STALE, reason="moved", jaccard=None),
        pair(4, Class.SKIPPED, reason="no candidate", candidate=None, jaccard=None),
        pair(5, control=replace(OURS, served_by="someone")),
        pair(6, Class.ERROR, control=failing(Status.FAILED), jaccard=None),
        missing=2,
    )
    assert found.passed_over == {
        "shed": 1, "stale": 1, "skipped": 1, OTHER_CONTROL: 1, NO_CONTROL: 1, LOST: 2,
    }  # fmt: skip
    assert found.attempted == 8
    assert found.attempted == len(found.failed) + sum(found.passed_over.values())


def test_a_log_of_other_arms_counts_nothing() -> None:
    found = counted(pair(1), pair(2), control="another")
    assert not len(found.failed)
    assert not found.overlap
    assert found.passed_over == {OTHER_CONTROL: 2}


def test_it_says_when() -> None:
    late = pair(2, at=1_700_000_000_000_000_000 + 86_400 * 10**9)
    found = counted(pair(1), late)
    assert found.since == "2023-11-14T22:13:20+00:00"
    assert found.until == "2023-11-15T22:13:20+00:00"


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no attempt"):
        counted()


def test_different_queries_are_counted_and_the_most_asked_comes_first() -> None:
    many = [pair(n, query=query) for n, query in enumerate("abcaaa", start=1)]
    found = counted(*many)
    assert found.asked.tolist() == [4, 1, 1]


def test_clients_are_counted_and_of_several_logs_the_worst_is_taken() -> None:
    """Keys of two logs do not meet, so the largest client of each may be the same."""
    names = [f"{at:032x}" for at in range(3)]
    found = counted(
        *(pair(at, client=names[at > 3]) for at in range(1, 6)),
        *(pair(at, client=names[2], writer="w2") for at in range(1, 3)),
        pair(3, writer="w2"),
        pair(6, Class.SHED, client=names[0]),
    )
    assert (found.largest_client, found.unnamed) == (3 + 2, 1)
