"""Trials of load: the open loop, its workers and its clock."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from harness.core.errors import InvalidArm
from harness.core.run import Status
from harness.load.trial import Trial, summed
from harness.load.workers import (
    PATIENCE,
    LoadWorker,
    Mix,
    ServedArrival,
    TrialPlan,
    WorkerPool,
    WorkerResult,
    answered,
    poisson,
    run_pool,
    unserved,
)
from tests.load.virtual import MS, Opens, S, Virtual, plan_of, questions, serve, stalling, steady
from tests.make.arms import Hand

pytestmark = pytest.mark.slow
QUERIES = questions(30)
MIX = Mix(QUERIES, {})
RATE, MINUTES = 200.0, 120.0
SERVICE_NS = MS // 10


def p99_ms(times_ns: list[int]) -> float:
    return float(np.percentile(times_ns, 99)) / MS


@pytest.fixture(scope="module")
def stalled() -> list[ServedArrival]:
    """Two minutes of an engine that stops for 100 ms every second."""
    plan = plan_of(QUERIES, poisson(MIX, RATE, MINUTES, (1,)), MINUTES)
    return serve(plan, stalling(S, 100 * MS, SERVICE_NS))


def test_a_stall_is_in_the_tail_of_an_open_loop(stalled: list[ServedArrival]) -> None:
    """A tenth of the arrivals fall into a stall and wait for its end; 1 % more than 90 ms.

    Who arrives u after the stall began waits 100 ms - u, and for those before it in the queue:
    rate times u answers. One in a hundred arrives before u = 10 ms.
    """
    u_ms = 10.0
    analytic = 100.0 - u_ms + (RATE / 1000 * u_ms + 1) * SERVICE_NS / MS
    assert p99_ms([one.response_ns for one in stalled]) == pytest.approx(analytic, rel=0.05)


def test_a_closed_loop_does_not_see_the_stall(stalled: list[ServedArrival]) -> None:
    closed = serve(plan_of(QUERIES, None, 2.0), stalling(S, 100 * MS, SERVICE_NS))
    assert p99_ms([one.response_ns for one in closed]) == pytest.approx(0.1, rel=0.05)
    assert p99_ms([one.service_ns for one in closed]) == pytest.approx(0.1, rel=0.05)
    assert p99_ms([one.response_ns for one in stalled]) > 800 * 0.1


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
    worker = LoadWorker(plan, engine, lambda: next(ticket), hand, 0)
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


def test_what_fails_and_what_strays_is_told_apart() -> None:
    hand, ticket = Hand(), count()
    engine = Virtual(
        hand, steady(MS), broken=frozenset({"text 001"}), strange=frozenset({"text 002"})
    )
    worker = LoadWorker(plan_of(QUERIES[:4], None, 0.004), engine, lambda: next(ticket), hand, 0)
    served = list(iter(worker.step, None))
    assert [(one.status, one.stray) for one in served] == [
        (Status.ANSWERED, False),
        (Status.FAILED, False),
        (Status.ANSWERED, True),
        (Status.ANSWERED, False),
    ]


def test_cold_questions_are_kept_and_warm_ones_are_not() -> None:
    engine = Virtual(Hand(), steady(MS), broken=frozenset({"text 006"}))
    worker = LoadWorker(plan_of(QUERIES, None, 1.0, cold=3, warm=2), engine, lambda: 0, Hand(), 0)
    cold = worker.warm_up(1)
    assert engine.asked == [f"text {at:03}" for at in range(5, 10)]
    assert [row for row, _ in cold] == [5, 7]
    assert all(elapsed_ns > 0 for _, elapsed_ns in cold)


ARRIVALS = poisson(Mix(QUERIES, {"short": 2, "long": 1}), 100.0, 30.0, (1,))
PLAN = plan_of(QUERIES, ARRIVALS, 30.0)
BUDGETS = (5 * MS, 15 * MS)


def part(served: list[ServedArrival], cpu_ns: int = 5, resident: int = 30) -> WorkerResult:
    return WorkerResult(tuple(served), ((PLAN.picks[0], 9 * MS),), cpu_ns, 10, resident, 40, 0)


def summary(*parts: WorkerResult, plan: TrialPlan = PLAN) -> Trial:
    classes = ARRIVALS.classes if plan is PLAN else ("all",) * len(plan.picks)
    return summed(plan, classes, parts, budgets_ns=BUDGETS)


@pytest.fixture
def served() -> list[ServedArrival]:
    return serve(PLAN, steady(4 * MS))


def test_percentiles_are_those_of_the_response_times(served: list[ServedArrival]) -> None:
    trial = summary(part(served))
    times = [one.response_ns for one in served]
    assert trial.overall.percentile(99) == pytest.approx(np.percentile(times, 99), rel=0.01)
    assert trial.arrivals == len(served) == trial.overall.count
    assert trial.rate == pytest.approx(100, rel=0.05)


def test_classes_are_kept_apart(served: list[ServedArrival]) -> None:
    trial = summary(part(served))
    assert set(trial.response) == {"short", "long"}
    counts = {name: ARRIVALS.classes.count(name) for name in trial.response}
    assert {name: of.count for name, of in trial.response.items()} == counts
    assert {name: of.percentile(50) for name, of in trial.service.items()} == {
        name: pytest.approx(4 * MS, rel=1e-3) for name in counts
    }


def test_what_failed_is_no_time_and_within_no_budget(served: list[ServedArrival]) -> None:
    bad = [
        one._replace(status=Status.FAILED if at % 20 else Status.TIMED_OUT) if at % 10 == 0 else one
        for at, one in enumerate(served)
    ]
    trial, good = summary(part(bad)), summary(part(served))
    tenth = sum(at % 10 == 0 for at in range(len(served)))
    assert trial.ends[Status.FAILED] + trial.ends[Status.TIMED_OUT] == tenth
    assert trial.overall.count == len(served) - tenth
    assert good.keeps(15 * MS, 95.0)
    assert not trial.keeps(15 * MS, 95.0)
    assert trial.within[15 * MS] < 0.9 + 0.001


def test_what_was_never_asked_counts_too(served: list[ServedArrival]) -> None:
    trial = summary(part(served[: len(served) // 2]))
    assert trial.arrivals == len(ARRIVALS)
    assert trial.ends[Status.NOT_ASKED] == len(ARRIVALS) - len(served) // 2
    assert trial.within[15 * MS] < 0.51


def test_costs_are_added_and_memory_is_the_largest(served: list[ServedArrival]) -> None:
    trial = summary(part(served[::2], 5, 30), part(served[1::2], 6, 90))
    assert (trial.cpu_ns, trial.opened_bytes, trial.resident_bytes, trial.peak_bytes) == (
        11, 80, 90, 40,
    )  # fmt: skip


QUERIES_WORKER_POOL = questions(20)
ARRIVALS_WORKER_POOL = poisson(Mix(QUERIES_WORKER_POOL, {}), 300.0, 1.0, (1,))


def plan(**changed: int) -> TrialPlan:
    return plan_of(
        QUERIES_WORKER_POOL, ARRIVALS_WORKER_POOL, 1.0, **{"cold": 3, "warm": 2} | changed
    )


@pytest.fixture(scope="module")
def parts() -> tuple[WorkerResult, ...]:
    return run_pool(Opens(), plan(), WorkerPool(2, 2))


def test_each_arrival_is_served_once_by_someone(parts: tuple[WorkerResult, ...]) -> None:
    assert len(parts) == 2
    served = sorted(one for part in parts for one in part.served)
    assert [one.arrival for one in served] == list(range(len(ARRIVALS_WORKER_POOL)))
    assert unserved(plan(), parts) == 0
    assert answered(parts) == tuple(served)
    assert not any(one.stray for one in served)


def test_an_arm_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(
        InvalidArm, match=r"IndexNotReady: toy: no index here\. Run: harness stage index"
    ):
        run_pool(Opens("no index"), plan(), WorkerPool(2, 2))


def test_a_worker_that_dies_is_not_waited_for() -> None:
    with pytest.raises(InvalidArm, match="died with exit code 9"):
        run_pool(Opens("killed"), plan(), WorkerPool(2, 1))
