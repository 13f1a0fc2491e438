"""Trials of load: the open loop, its workers and its clock; arrivals, histograms and rates."""

import json
import math
import random
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InvalidArm
from harness.core.gate import Verdict
from harness.core.run import Status
from harness.load.rates import Highest, highest_rate, median_of, noise
from harness.load.trial import DIGITS, HIGHEST_NS, LOWEST_NS, Histogram, Record, Trial, summed
from harness.load.workers import (
    NS_PER_S,
    PATIENCE,
    LoadWorker,
    ServedArrival,
    TrialPlan,
    WorkerResult,
    poisson,
    run_pool,
)
from tests.load.virtual import (
    MS,
    Hand,
    Opens,
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
RATE, MINUTES = 200.0, 120.0
SERVICE_NS = MS // 10


def p99_ms(times_ns: list[int]) -> float:
    return float(np.percentile(times_ns, 99)) / MS


@pytest.fixture(scope="module")
def stalled() -> list[ServedArrival]:
    """Two minutes of an engine that stops for 100 ms every second."""
    plan = plan_of(QUERIES, poisson(len(QUERIES), RATE, MINUTES, (1,)), MINUTES)
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
    plan = plan_of(QUERIES, poisson(len(QUERIES), 50.0, 1500.0, (2,)), 1500.0)
    served = serve(plan, steady(10 * MS))
    waits = np.array([one.started_ns - one.intended_ns for one in served]) / MS
    assert waits.mean() == pytest.approx(0.5 * 10 / (2 * 0.5), rel=0.05)


def test_every_arrival_is_asked_what_was_drawn_for_it() -> None:
    arrivals = poisson(len(QUERIES), 100.0, 3.0, (4,))
    hand, ticket = Hand(), count()
    engine = Virtual(hand, steady(MS))
    plan = plan_of(QUERIES, arrivals, 3.0)
    worker = LoadWorker(plan, engine, lambda: next(ticket), hand)
    served = list(iter(worker.step, None))
    assert [one.arrival for one in served] == list(range(len(arrivals[0])))
    assert engine.asked == [QUERIES[row].text for row in arrivals[1]]
    waited = sum(one.taken_ns < one.intended_ns for one in served)
    assert worker.waiting_cpu_ns == 7 * waited > 0


def test_the_generators_lag_is_its_own_and_a_queue_is_not() -> None:
    plan = plan_of(QUERIES, poisson(len(QUERIES), 50.0, 60.0, (5,)), 60.0)
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
    arrivals = poisson(len(QUERIES), 100.0, 10.0, (6,))
    served = serve(plan_of(QUERIES, arrivals, 10.0), steady(S))
    assert len(served) == pytest.approx(10 * PATIENCE, abs=2)
    assert len(served) < len(arrivals[0])


def test_what_fails_and_what_strays_is_told_apart() -> None:
    hand, ticket = Hand(), count()
    engine = Virtual(
        hand, steady(MS), broken=frozenset({"text 001"}), strange=frozenset({"text 002"})
    )
    worker = LoadWorker(plan_of(QUERIES[:4], None, 0.004), engine, lambda: next(ticket), hand)
    served = list(iter(worker.step, None))
    assert [(one.status, one.stray) for one in served] == [
        (Status.ANSWERED, False),
        (Status.FAILED, False),
        (Status.ANSWERED, True),
        (Status.ANSWERED, False),
    ]


def test_each_worker_warms_up_with_its_own_queries() -> None:
    engine = Virtual(Hand(), steady(MS), broken=frozenset({"text 006"}))
    LoadWorker(plan_of(QUERIES, None, 1.0, warm=5), engine, lambda: 0, Hand()).warm_up(1)
    assert engine.asked == [f"text {at:03}" for at in range(5, 10)]


ARRIVALS = poisson(len(QUERIES), 100.0, 30.0, (1,))
PLAN = plan_of(QUERIES, ARRIVALS, 30.0)
BUDGETS = (5 * MS, 15 * MS)


def part(served: list[ServedArrival], cpu_ns: int = 5, resident: int = 30) -> WorkerResult:
    return WorkerResult(tuple(served), cpu_ns, 10, resident, 40, 0)


def summary(*parts: WorkerResult, plan: TrialPlan = PLAN) -> Trial:
    return summed(plan, parts, budgets_ns=BUDGETS)


@pytest.fixture
def served() -> list[ServedArrival]:
    return serve(PLAN, steady(4 * MS))


def test_response_counts_from_the_intended_start_and_service_from_the_real_one(
    served: list[ServedArrival],
) -> None:
    trial = summary(part(served))
    assert trial.response.count == trial.service.count == len(served)
    assert trial.service.percentile(100) == pytest.approx(4 * MS, rel=1e-3)
    waited = sorted(one.response_ns for one in served)
    assert trial.response.percentile(100) == pytest.approx(waited[-1], rel=1e-3)
    assert waited[-1] > 4 * MS


def test_what_failed_is_no_time_and_within_no_budget(served: list[ServedArrival]) -> None:
    bad = [
        one._replace(status=Status.FAILED if at % 20 else Status.TIMED_OUT) if at % 10 == 0 else one
        for at, one in enumerate(served)
    ]
    trial, good = summary(part(bad)), summary(part(served))
    tenth = sum(at % 10 == 0 for at in range(len(served)))
    assert trial.ends[Status.FAILED] + trial.ends[Status.TIMED_OUT] == tenth
    assert trial.response.count == len(served) - tenth
    assert good.keeps(15 * MS, 95.0)
    assert not trial.keeps(15 * MS, 95.0)
    assert trial.within[15 * MS] < 0.9 + 0.001


def test_what_was_never_asked_counts_too(served: list[ServedArrival]) -> None:
    trial = summary(part(served[: len(served) // 2]))
    assert trial.arrivals == len(ARRIVALS[0])
    assert trial.ends[Status.NOT_ASKED] == len(ARRIVALS[0]) - len(served) // 2
    assert trial.within[15 * MS] < 0.51


def test_costs_are_added_and_memory_is_the_largest(served: list[ServedArrival]) -> None:
    trial = summary(part(served[::2], 5, 30), part(served[1::2], 6, 90))
    assert (trial.cpu_ns, trial.opened_bytes, trial.resident_bytes, trial.peak_bytes) == (
        11, 80, 90, 40,
    )  # fmt: skip


QUERIES_WORKER_POOL = questions(20)
ARRIVALS_WORKER_POOL = poisson(len(QUERIES_WORKER_POOL), 300.0, 1.0, (1,))


def plan(**changed: int) -> TrialPlan:
    return plan_of(QUERIES_WORKER_POOL, ARRIVALS_WORKER_POOL, 1.0, **{"warm": 5} | changed)


@pytest.fixture(scope="module")
def parts() -> tuple[WorkerResult, ...]:
    return run_pool(Opens(), plan(), 2, 2)


def test_each_arrival_is_served_once_by_someone(parts: tuple[WorkerResult, ...]) -> None:
    assert len(parts) == 2
    served = sorted(one for part in parts for one in part.served)
    assert [one.arrival for one in served] == list(range(len(ARRIVALS_WORKER_POOL[0])))
    assert all(one.status is Status.ANSWERED for one in served)
    assert not any(one.stray for one in served)


def test_an_arm_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(
        InvalidArm, match=r"IndexNotReady: toy: no index here\. Run: harness stage index"
    ):
        run_pool(Opens("no index"), plan(), 2, 2)


def test_a_worker_that_dies_is_not_waited_for() -> None:
    with pytest.raises(InvalidArm, match="died with exit code 9"):
        run_pool(Opens("killed"), plan(), 2, 1)


def test_gaps_are_those_of_a_poisson_process_and_queries_are_asked_alike() -> None:
    offsets_ns, picks = map(np.array, poisson(len(QUERIES), 1000.0, 60.0, (1,)))
    gaps = np.diff(offsets_ns) / NS_PER_S
    assert len(offsets_ns) == len(picks) == pytest.approx(60_000, rel=0.02)
    assert gaps.mean() == pytest.approx(1e-3, rel=0.02)
    assert gaps.std() == pytest.approx(1e-3, rel=0.03)
    assert (gaps > 1e-3).mean() == pytest.approx(np.exp(-1), rel=0.03)
    assert (gaps >= 0).all()
    assert offsets_ns[-1] < 60 * NS_PER_S
    each = np.bincount(picks, minlength=len(QUERIES))
    assert each.min() > 0.9 * each.max() > 0


def test_the_schedule_is_seeded() -> None:
    one, same, other = (poisson(len(QUERIES), 50.0, 5.0, seed) for seed in ((1, 2), (1, 2), (1, 3)))
    assert one == same
    assert one[0] != other[0]


def found(probe: Callable[[float], bool | None], **changed: Any) -> Highest:  # noqa: ANN401
    usual: dict[str, Any] = {
        "capacity": 100.0,
        "floor": 0.04,
        "resolution": 1.1,
        "confidence": 0.95,
        "retries": 2,
    }
    return highest_rate(probe, **usual | changed)


@pytest.mark.parametrize("true", [0.05, 40.0, 99.0, 101.0, 900.0])
def test_a_sharp_edge_is_found(true: float) -> None:
    highest = found(lambda rate: rate <= true)
    assert highest.verdict is Verdict.PASS
    assert highest.estimate is not None
    assert highest.estimate.low <= true < highest.estimate.high
    assert highest.estimate.high / highest.estimate.low <= 1.1
    assert highest.estimate.low < highest.estimate.value < highest.estimate.high
    assert highest.estimate.n == len(highest.tried)


def noisy(true: float, width: float, rng: random.Random) -> Callable[[float], bool]:
    """Keep the budget with a chance that falls with the logarithm of the rate."""
    return lambda rate: rng.random() < 1 / (1 + math.exp(math.log(rate / true) / width))


def test_the_interval_holds_the_even_chance_as_often_as_it_says() -> None:
    rng = random.Random(5)
    results = [found(noisy(70.0, 0.06, rng)) for _ in range(400)]
    intervals = [one.estimate for one in results if one.estimate]
    held = sum(one.low <= 70 <= one.high for one in intervals)
    assert len(intervals) > 200
    assert held / len(intervals) >= 0.95


CHANCE = random.Random(1)


@pytest.mark.parametrize(
    ("probe", "floor", "verdict", "reason"),
    [
        (lambda r: CHANCE.random() < 0.5 if 1 < r < 1000 else r < 1, 0.04,
         Verdict.INCONCLUSIVE, "do not agree"),
        (lambda _: False, 0.04, Verdict.FAIL, "even 0.04 queries"),
        (lambda _: True, 51.0, Verdict.INCONCLUSIVE, "Make them longer"),
        (lambda _: True, 0.04, Verdict.INCONCLUSIVE, "keep the budget"),
        (lambda _: None, 0.04, Verdict.INCONCLUSIVE, "3 trials in a row at 50 a second"),
    ],
)  # fmt: skip
def test_where_no_end_is_found_there_is_no_rate(
    probe: Callable[[float], bool | None], floor: float, verdict: Verdict, reason: str
) -> None:
    highest = found(probe, floor=floor)
    assert (highest.verdict, highest.estimate) == (verdict, None)
    assert reason in highest.reason


def test_a_trial_that_says_nothing_is_tried_again() -> None:
    said: list[bool | None] = [None, None, True]
    highest = found(lambda rate: said.pop(0) if said else rate < 70)
    assert highest.verdict is Verdict.PASS
    assert [each for _, each in highest.tried[:3]] == [None, None, True]


TIMES = st.lists(st.integers(1, HIGHEST_NS) | st.integers(1, 10_000_000), max_size=40)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(TIMES, st.lists(st.floats(0, 100) | st.sampled_from([0, 50, 99.9, 100]), max_size=6))
def test_percentiles_are_those_of_hdr_histogram(times: list[int], percents: list[float]) -> None:
    counted = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for time in times:
        counted.record_value(time)
    found = Histogram.of(times)
    theirs = [counted.get_value_at_percentile(percent) for percent in percents] if times else []
    assert [found.percentile(percent) for percent in percents if times] == theirs


@pytest.mark.parametrize(
    ("second", "verdict", "factor"),
    [
        ([100, 149, 70], Verdict.PASS, "1.49 times"),
        ([100, 151, 100], Verdict.INCONCLUSIVE, "1.51 times"),
        ([100, 60, 100], Verdict.INCONCLUSIVE, "1.67 times"),
    ],
)
def test_one_loud_round_is_noise(second: list[int], verdict: Verdict, factor: str) -> None:
    found = noise([one / 100 for one in second], max_noise=1.5)
    assert found.verdict is verdict
    assert factor in found.reason


def test_the_median_has_the_interval_of_the_binomial() -> None:
    estimate = median_of([5.0, 1.0, 2.0, 4.0, 3.0, 6.0], confidence=0.95)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (3.5, 1.0, 6.0, 6)
    nine = median_of([float(at) for at in range(9)], confidence=0.95)
    assert nine is not None
    assert (nine.low, nine.high) == (1.0, 7.0)
    assert median_of([1.0] * 5, confidence=0.95) is None


def record(late_ns: int = 0, rate: float | None = 100.0) -> Record:
    trial: Trial = summary(part(serve(PLAN, steady(4 * MS), late_ns=late_ns)))
    about = {"machine": "here", "busy": 0.5}
    return Record("old", twin=False, rate=rate, number=3, purpose="curve", trial=trial, about=about)


def test_what_is_written_is_read() -> None:
    made = record()
    read = Record.of_line(made.line())
    assert read.line() == made.line()
    assert "\n" not in made.line()
    assert read.trial.response.encoded() == made.trial.response.encoded()
    assert (read.arm, read.twin, read.rate, read.number) == ("old", False, 100.0, 3)
    assert read.trial.ends == made.trial.ends
    assert read.trial.within == made.trial.within


def test_a_late_generator_and_strange_answers_are_objected_to() -> None:
    assert record().objection(0.1) == ""
    assert "6.00 ms late (p99), more than 0.1" in record(late_ns=6 * MS).objection(0.1)
    assert record(late_ns=6 * MS, rate=None).objection(0.1) == ""
    told = json.loads(record().line()) | {"strays": 2}
    assert "2 answers were not" in Record.of_line(json.dumps(told)).objection(0.1)
