"""Processes and threads share one schedule; what goes wrong in one of them is said."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from harness.core.errors import InvalidArm
from harness.core.run import Status
from harness.load.workers import (
    Mix,
    Part,
    Plan,
    WorkerPool,
    answered,
    poisson,
    run_pool,
    unserved,
)
from tests.make.virtual import plan_of, questions
from tests.replay.crewed import Opens

pytestmark = pytest.mark.slow
QUERIES = questions(20)
ARRIVALS = poisson(Mix(QUERIES, {}), 300.0, 1.0, (1,))


def plan(**changed: int) -> Plan:
    return plan_of(QUERIES, ARRIVALS, 1.0, **{"cold": 3, "warm": 2} | changed)


@pytest.fixture(scope="module")
def parts() -> tuple[Part, ...]:
    return run_pool(Opens(), plan(), WorkerPool(2, 2))


def test_each_arrival_is_served_once_by_someone(parts: tuple[Part, ...]) -> None:
    assert len(parts) == 2
    served = sorted(one for part in parts for one in part.served)
    assert [one.arrival for one in served] == list(range(len(ARRIVALS)))
    assert unserved(plan(), parts) == 0
    assert answered(parts) == tuple(served)
    assert not any(one.stray for one in served)


def test_all_workers_keep_to_one_start(parts: tuple[Part, ...]) -> None:
    assert len({part.start_ns for part in parts}) == 1
    start = parts[0].start_ns
    for part in parts:
        for one in part.served:
            assert one.intended_ns == start + ARRIVALS.offsets_ns[one.arrival]
            assert one.intended_ns <= one.started_ns <= one.ended_ns


def test_each_worker_has_its_cold_questions(parts: tuple[Part, ...]) -> None:
    assert [len(part.cold) for part in parts] == [6, 6]
    asked = Counter(row for part in parts for row, _ in part.cold)
    first = [ARRIVALS.picks[at * 5 + step] for at in range(4) for step in range(3)]
    assert asked == Counter(first)


def test_what_it_cost_is_counted(parts: tuple[Part, ...]) -> None:
    for part in parts:
        assert 0 < part.cpu_ns < 2_000_000_000
        assert 0 < part.before_bytes <= part.resident_bytes <= part.peak_bytes


def test_memory_is_that_of_the_arm() -> None:
    (thin,) = run_pool(Opens(), plan(), WorkerPool(1, 1))
    (fat,) = run_pool(Opens("fat"), plan(), WorkerPool(1, 1))
    assert fat.resident_bytes - fat.before_bytes > 110_000_000
    assert thin.resident_bytes - thin.before_bytes < 60_000_000
    assert fat.peak_bytes > thin.peak_bytes + 50_000_000


def test_an_arm_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(
        InvalidArm, match=r"IndexNotReady: toy: no index here\. Run: harness stage index"
    ):
        run_pool(Opens("no index"), plan(), WorkerPool(2, 2))


def test_a_worker_that_dies_is_not_waited_for() -> None:
    with pytest.raises(InvalidArm, match="died with exit code 9"):
        run_pool(Opens("killed"), plan(), WorkerPool(2, 1))


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    run_pool(Opens(), plan(), WorkerPool(1, 1))
    assert threading.active_count() == before


def test_a_crew_of_a_closed_loop_asks_until_its_time_is_over() -> None:
    closed = plan_of(QUERIES, None, 0.2)
    parts = run_pool(Opens(), closed, WorkerPool(1, 2))
    served = answered(parts)
    assert len(served) > len(QUERIES)
    assert {one.status for one in served} == {Status.ANSWERED}
    assert unserved(closed, parts) == 0
    assert WorkerPool(3, 4).workers == 12
