"""Open loop against a clock turned by hand: stalls are seen, and nobody's lag is the engine's."""

from __future__ import annotations

import time
from itertools import count

import numpy as np
import pytest

from harness.core.run import Status
from harness.load.workers import PATIENCE, Mix, Served, WallClock, Worker, poisson
from tests.make.virtual import (
    MS,
    Hand,
    S,
    Virtual,
    plan_of,
    questions,
    serve,
    stalling,
    steady,
)

pytestmark = pytest.mark.slow
QUERIES = questions(30)
MIX = Mix(QUERIES, {})
RATE, MINUTES = 200.0, 120.0
SERVICE_NS = MS // 10


def p99_ms(times_ns: list[int]) -> float:
    return float(np.percentile(times_ns, 99)) / MS


@pytest.fixture(scope="module")
def stalled() -> list[Served]:
    """Two minutes of an engine that stops for 100 ms every second."""
    plan = plan_of(QUERIES, poisson(MIX, RATE, MINUTES, (1,)), MINUTES)
    return serve(plan, stalling(S, 100 * MS, SERVICE_NS))


def test_a_stall_is_in_the_tail_of_an_open_loop(stalled: list[Served]) -> None:
    """A tenth of the arrivals fall into a stall and wait for its end; 1 % more than 90 ms.

    Who arrives u after the stall began waits 100 ms - u, and for those before it in the queue:
    rate times u answers. One in a hundred arrives before u = 10 ms.
    """
    u_ms = 10.0
    analytic = 100.0 - u_ms + (RATE / 1000 * u_ms + 1) * SERVICE_NS / MS
    assert p99_ms([one.response_ns for one in stalled]) == pytest.approx(analytic, rel=0.05)


def test_a_closed_loop_does_not_see_the_stall(stalled: list[Served]) -> None:
    closed = serve(plan_of(QUERIES, None, 2.0), stalling(S, 100 * MS, SERVICE_NS))
    assert p99_ms([one.response_ns for one in closed]) == pytest.approx(0.1, rel=0.05)
    assert p99_ms([one.service_ns for one in closed]) == pytest.approx(0.1, rel=0.05)
    assert p99_ms([one.response_ns for one in stalled]) > 800 * 0.1


def test_the_whole_distribution_is_that_of_the_stall(stalled: list[Served]) -> None:
    """Nine in ten arrive outside of a stall; of the rest the waits are even."""
    times = np.array([one.response_ns for one in stalled]) / MS
    assert (times < 1.0).mean() == pytest.approx(0.9, abs=0.01)
    waited = times[times >= 1.0]
    assert np.median(waited) == pytest.approx(50.5, rel=0.06)
    assert times.max() < 102.0


def test_waits_of_a_busy_queue_are_those_of_the_theory() -> None:
    """Poisson arrivals, constant service: mean wait rho * s / (2 (1 - rho)) (Pollaczek)."""
    plan = plan_of(QUERIES, poisson(MIX, 50.0, 1500.0, (2,)), 1500.0)
    served = serve(plan, steady(10 * MS))
    waits = np.array([one.started_ns - one.intended_ns for one in served]) / MS
    assert waits.mean() == pytest.approx(0.5 * 10 / (2 * 0.5), rel=0.05)


@pytest.mark.parametrize("workers", [2, 3])
def test_arrivals_wait_for_the_first_free_worker(workers: int) -> None:
    arrivals = poisson(MIX, 90.0 * workers, 60.0, (3,))
    served = serve(plan_of(QUERIES, arrivals, 60.0), steady(10 * MS), workers=workers)
    free = [0] * workers
    for one, offset in zip(served, arrivals.offsets_ns.tolist(), strict=True):
        at = free.index(min(free))
        free[at] = max(free[at], offset) + 10 * MS
        assert (one.intended_ns, one.ended_ns) == (offset, free[at])


def test_every_arrival_is_asked_what_was_drawn_for_it() -> None:
    arrivals = poisson(MIX, 100.0, 3.0, (4,))
    hand, ticket = Hand(), count()
    engine = Virtual(hand, steady(MS))
    plan = plan_of(QUERIES, arrivals, 3.0)
    worker = Worker(plan, engine, lambda: next(ticket), hand, 0)
    served = list(iter(worker.step, None))
    assert [one.arrival for one in served] == list(range(len(arrivals)))
    assert engine.asked == [QUERIES[row].text for row in arrivals.picks]
    waited = sum(one.taken_ns < one.intended_ns for one in served)
    assert worker.waiting_cpu_ns == 7 * waited > 0


def test_the_generators_lag_is_its_own_and_a_queue_is_not() -> None:
    plan = plan_of(QUERIES, poisson(MIX, 50.0, 60.0, (5,)), 60.0)
    late = serve(plan, steady(10 * MS), late_ns=3 * MS)
    waited = [one for one in late if one.taken_ns < one.intended_ns]
    queued = [one for one in late if one.taken_ns >= one.intended_ns]
    assert waited
    assert queued
    assert {one.lag_ns for one in waited} == {3 * MS}
    assert {one.lag_ns for one in queued} == {0}
    assert all(one.response_ns == 13 * MS for one in waited)
    assert all(one.response_ns > one.service_ns == 10 * MS for one in queued)


def test_an_engine_that_is_far_too_slow_is_given_up() -> None:
    arrivals = poisson(MIX, 100.0, 10.0, (6,))
    served = serve(plan_of(QUERIES, arrivals, 10.0), steady(S))
    assert len(served) == pytest.approx(10 * PATIENCE, abs=2)
    assert len(served) < len(arrivals)


def test_a_closed_loop_goes_round_for_its_time() -> None:
    served = serve(plan_of(QUERIES[:4], None, 1.0), steady(100 * MS), workers=2)
    assert len(served) == 20
    assert [one.arrival for one in served] == list(range(20))
    assert {one.response_ns for one in served} == {100 * MS}


def test_what_fails_and_what_strays_is_told_apart() -> None:
    hand, ticket = Hand(), count()
    engine = Virtual(
        hand, steady(MS), broken=frozenset({"text 001"}), strange=frozenset({"text 002"})
    )
    worker = Worker(plan_of(QUERIES[:4], None, 0.004), engine, lambda: next(ticket), hand, 0)
    served = list(iter(worker.step, None))
    assert [(one.status, one.stray) for one in served] == [
        (Status.ANSWERED, False),
        (Status.FAILED, False),
        (Status.ANSWERED, True),
        (Status.ANSWERED, False),
    ]


def test_an_answer_that_came_too_late_is_no_stray() -> None:
    hand, ticket = Hand(), count()
    plan = plan_of(QUERIES[:2], None, 0.002, time_limit_ns=0)
    worker = Worker(plan, Virtual(hand, steady(MS)), lambda: next(ticket), hand, 0)
    served = list(iter(worker.step, None))
    assert {(one.status, one.stray) for one in served} == {(Status.TIMED_OUT, False)}


def test_cold_questions_are_kept_and_warm_ones_are_not() -> None:
    engine = Virtual(Hand(), steady(MS), broken=frozenset({"text 006"}))
    worker = Worker(plan_of(QUERIES, None, 1.0, cold=3, warm=2), engine, lambda: 0, Hand(), 0)
    cold = worker.warm_up(1)
    assert engine.asked == [f"text {at:03}" for at in range(5, 10)]
    assert [row for row, _ in cold] == [5, 7]
    assert all(elapsed_ns > 0 for _, elapsed_ns in cold)


def test_a_wait_is_never_too_short() -> None:
    clock = WallClock()
    for wait_ns in (0, 50_000, 2_000_000):
        until = clock.now_ns() + wait_ns
        spent = clock.wait_until(until)
        assert clock.now_ns() >= until
        assert spent >= 0


def test_a_wait_sleeps_but_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only looks and sleeps move on, so that a busy machine changes nothing."""
    slept: list[float] = []
    now = [0]

    def look() -> int:
        now[0] += 1_000
        return now[0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += round(seconds * 1e9)

    monkeypatch.setattr(time, "perf_counter_ns", look)
    monkeypatch.setattr(time, "sleep", sleep)
    WallClock().wait_until(20 * MS)
    assert slept[0] == pytest.approx(0.0198, abs=1e-5)
    assert len(slept) > 1
    assert set(slept[1:]) == {0}
    assert 20 * MS <= now[0] < 20 * MS + 2_000
