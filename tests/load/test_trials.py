"""Trials of load: the open loop, its workers and its clock; arrivals, histograms and rates."""

import json
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InvalidArm
from harness.core.gate import Verdict
from harness.core.run import Status
from harness.load import workers
from harness.load.rates import Highest, highest_rate, median_of, noise
from harness.load.trial import DIGITS, HIGHEST_NS, LOWEST_NS, Histogram, Record, Trial, summed
from tests.load.virtual import MS, Opens, S, plan_of, questions, serve, stalling, steady, working

pytestmark = pytest.mark.slow
QUERIES = questions(30)


RATE, SECONDS = 200.0, 120.0
SERVICE_NS = MS // 10


def test_a_stall_is_in_the_tail_of_an_open_loop_and_a_closed_one_does_not_see_it() -> None:
    """Two minutes of an engine that stops for 100 ms every second.

    A tenth of the arrivals fall into a stall and wait for its end; 1 % more than 90 ms. Who
    arrives u after the stall began waits 100 ms - u, and for those before it in the queue: rate
    times u answers. One in a hundred arrives before u = 10 ms.
    """
    u_ms, stalls = 10.0, stalling(S, 100 * MS, SERVICE_NS)
    analytic = 100.0 - u_ms + (RATE / 1000 * u_ms + 1) * SERVICE_NS / MS
    arrivals = workers.poisson(len(QUERIES), RATE, SECONDS, (1,))
    stalled = serve(plan_of(QUERIES, arrivals, SECONDS), stalls)
    closed = serve(plan_of(QUERIES, None, 2.0), stalls)
    times = [[one.response_ns for one in stalled], [one.response_ns for one in closed],
             [one.service_ns for one in closed]]  # fmt: skip
    p99_ms = [float(np.percentile(each, 99)) / MS for each in times]
    assert p99_ms == pytest.approx([analytic, 0.1, 0.1], rel=0.05)


def test_waits_of_a_busy_queue_are_those_of_the_theory() -> None:
    """Poisson arrivals, constant service: mean wait rho * s / (2 (1 - rho)) (Pollaczek)."""
    plan = plan_of(QUERIES, workers.poisson(len(QUERIES), 50.0, 600.0, (2,)), 600.0)
    served = serve(plan, steady(10 * MS))
    waits = np.array([one.started_ns - one.intended_ns for one in served]) / MS
    assert waits.mean() == pytest.approx(0.5 * 10 / (2 * 0.5), rel=0.05)


def test_every_arrival_is_asked_what_was_drawn_for_it() -> None:
    arrivals = workers.poisson(len(QUERIES), 100.0, 3.0, (4,))
    worker, engine = working(plan_of(QUERIES, arrivals, 3.0), steady(MS))
    served = list(iter(worker.step, None))
    assert [one.arrival for one in served] == list(range(len(arrivals[0])))
    assert engine.asked == [QUERIES[row].text for row in arrivals[1]]
    waited = sum(one.taken_ns < one.intended_ns for one in served)
    assert worker.waiting_cpu_ns == 7 * waited > 0


def test_the_generators_lag_is_its_own_and_a_queue_is_not() -> None:
    plan = plan_of(QUERIES, workers.poisson(len(QUERIES), 50.0, 60.0, (5,)), 60.0)
    late = serve(plan, steady(10 * MS), late_ns=3 * MS)
    waited = [one for one in late if one.taken_ns < one.intended_ns]
    queued = [one for one in late if one.taken_ns >= one.intended_ns]
    assert {(one.lag_ns, one.response_ns) for one in waited} == {(3 * MS, 13 * MS)}
    assert {(one.lag_ns, one.service_ns) for one in queued} == {(0, 10 * MS)}
    assert all(one.response_ns > 10 * MS for one in queued)


def test_an_engine_that_is_far_too_slow_is_given_up() -> None:
    arrivals = workers.poisson(len(QUERIES), 100.0, 10.0, (6,))
    served = serve(plan_of(QUERIES, arrivals, 10.0), steady(S))
    assert len(served) == pytest.approx(10 * workers.PATIENCE, abs=2)
    assert len(served) < len(arrivals[0])


def test_what_fails_and_what_strays_is_told_apart() -> None:
    plan = plan_of(QUERIES[:4], None, 0.004)
    worker, _ = working(plan, steady(MS), broken="text 001", strange="text 002")
    assert [(one.status, one.stray) for one in iter(worker.step, None)] == [
        (Status.ANSWERED, False), (Status.FAILED, False), (Status.ANSWERED, True),
        (Status.ANSWERED, False),
    ]  # fmt: skip


def test_each_worker_warms_up_with_its_own_queries() -> None:
    plan = plan_of(QUERIES, None, 1.0, warm=5)
    worker, engine = working(plan, steady(MS), broken="text 006")
    worker.warm_up(1)
    assert engine.asked == [f"text {at:03}" for at in range(5, 10)]


ARRIVALS = workers.poisson(len(QUERIES), 100.0, 30.0, (1,))
PLAN = plan_of(QUERIES, ARRIVALS, 30.0)


def part(
    served: list[workers.ServedArrival], cpu_ns: int = 5, resident: int = 30
) -> workers.WorkerResult:
    return workers.WorkerResult(tuple(served), cpu_ns, 10, resident, 40, 0)


def summary(*parts: workers.WorkerResult) -> Trial:
    return summed(PLAN, parts, budgets_ns=(5 * MS, 15 * MS))


@pytest.fixture
def served() -> list[workers.ServedArrival]:
    return serve(PLAN, steady(4 * MS))


def test_response_counts_from_the_intended_start_and_service_from_the_real_one(
    served: list[workers.ServedArrival],
) -> None:
    trial = summary(part(served))
    assert trial.response.count == trial.service.count == len(served)
    longest = max(one.response_ns for one in served)
    assert longest > 4 * MS
    found = trial.service.percentile(100), trial.response.percentile(100)
    assert found == pytest.approx((4 * MS, longest), rel=1e-3)


def test_what_failed_is_no_time_and_within_no_budget(served: list[workers.ServedArrival]) -> None:
    bad = list(served)
    for at in range(0, len(bad), 10):
        bad[at] = bad[at]._replace(status=Status.FAILED if at % 20 else Status.TIMED_OUT)
    trial, good = summary(part(bad)), summary(part(served))
    tenth = len(range(0, len(bad), 10))
    assert trial.ends[Status.FAILED] + trial.ends[Status.TIMED_OUT] == tenth
    assert trial.response.count == len(served) - tenth
    assert good.keeps(15 * MS, 95.0)
    assert not trial.keeps(15 * MS, 95.0)
    assert trial.within[15 * MS] < 0.9 + 0.001


def test_what_was_never_asked_counts_too(served: list[workers.ServedArrival]) -> None:
    trial = summary(part(served[: len(served) // 2]))
    assert trial.arrivals == len(ARRIVALS[0])
    assert trial.ends[Status.NOT_ASKED] == len(ARRIVALS[0]) - len(served) // 2
    assert trial.within[15 * MS] < 0.51


def test_costs_are_added_and_memory_is_the_largest(served: list[workers.ServedArrival]) -> None:
    trial = summary(part(served[::2], 5, 30), part(served[1::2], 6, 90))
    memory = trial.opened_bytes, trial.resident_bytes, trial.peak_bytes
    assert (trial.cpu_ns, memory) == (11, (80, 90, 40))


OFFSETS = workers.poisson(20, 300.0, 1.0, (1,))
POOLED = plan_of(questions(20), OFFSETS, 1.0, warm=5)


def test_each_arrival_is_served_once_by_someone() -> None:
    parts = workers.run_pool(Opens(), POOLED, 2, 2)
    assert len(parts) == 2
    served = sorted(one for part in parts for one in part.served)
    assert [one.arrival for one in served] == list(range(len(OFFSETS[0])))
    assert {(one.status, one.stray) for one in served} == {(Status.ANSWERED, False)}


@pytest.mark.parametrize(
    ("trouble", "says"),
    [("no index", r"IndexNotReady: toy: no index here\. Run: harness stage index"),
     ("killed", "died with exit code 9")],
)  # fmt: skip
def test_a_worker_that_cannot_open_its_arm_or_dies_is_not_waited_for(
    trouble: str, says: str
) -> None:
    with pytest.raises(InvalidArm, match=says):
        workers.run_pool(Opens(trouble), POOLED, 2, 1)


def test_gaps_are_those_of_a_poisson_process_and_queries_are_asked_alike() -> None:
    offsets_ns, picks = map(np.array, workers.poisson(len(QUERIES), 1000.0, 60.0, (1,)))
    gaps = np.diff(offsets_ns) / workers.NS_PER_S
    assert len(offsets_ns) == len(picks) == pytest.approx(60_000, rel=0.02)
    assert gaps.mean() == pytest.approx(1e-3, rel=0.02)
    assert gaps.std() == pytest.approx(1e-3, rel=0.03)
    assert (gaps > 1e-3).mean() == pytest.approx(np.exp(-1), rel=0.03)
    assert (gaps >= 0).all()
    assert offsets_ns[-1] < 60 * workers.NS_PER_S
    each = np.bincount(picks, minlength=len(QUERIES))
    assert each.min() > 0.9 * each.max() > 0


def test_the_schedule_is_seeded() -> None:
    one, same, other = (
        workers.poisson(len(QUERIES), 50.0, 5.0, seed) for seed in ((1, 2), (1, 2), (1, 3))
    )
    assert one == same
    assert one[0] != other[0]


def found(probe: Callable[[float], bool | None], floor: float = 0.04) -> Highest:
    return highest_rate(
        probe, capacity=100.0, floor=floor, resolution=1.1, confidence=0.95, retries=2
    )


@pytest.mark.parametrize("true", [0.05, 40.0, 99.0, 101.0, 900.0])
def test_a_sharp_edge_is_found(true: float) -> None:
    highest = found(lambda rate: rate <= true)
    assert highest.verdict is Verdict.PASS
    assert highest.estimate is not None
    low, high = highest.estimate.low, highest.estimate.high
    assert low <= true < high <= 1.1 * low
    assert low < highest.estimate.value < high
    assert highest.estimate.n == len(highest.tried)


def test_the_interval_holds_the_even_chance_as_often_as_it_says() -> None:
    """The budget is kept with a chance that falls with the logarithm of the rate."""
    rng = random.Random(5)

    def noisy(rate: float) -> bool:
        return rng.random() < 1 / (1 + math.exp(math.log(rate / 70) / 0.06))

    intervals = [one.estimate for one in (found(noisy) for _ in range(400)) if one.estimate]
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


@settings(max_examples=40, deadline=None)
@given(TIMES, st.lists(st.floats(0, 100) | st.sampled_from([0, 50, 99.9, 100]), max_size=6))
def test_percentiles_are_those_of_hdr_histogram(times: list[int], percents: list[float]) -> None:
    counted = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for time in times:
        counted.record_value(time)
    found = Histogram.of(times)
    theirs = [counted.get_value_at_percentile(percent) for percent in percents if times]
    assert [found.percentile(percent) for percent in percents if times] == theirs


@pytest.mark.parametrize(
    ("second", "verdict", "factor"),
    [([100, 149, 70], Verdict.PASS, "1.49 times"),
     ([100, 151, 100], Verdict.INCONCLUSIVE, "1.51 times"),
     ([100, 60, 100], Verdict.INCONCLUSIVE, "1.67 times")],
)  # fmt: skip
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
    assert (read.trial.ends, read.trial.within) == (made.trial.ends, made.trial.within)


def test_a_late_generator_and_strange_answers_are_objected_to() -> None:
    assert record().objection(0.1) == ""
    assert "6.00 ms late (p99), more than 0.1" in record(late_ns=6 * MS).objection(0.1)
    assert record(late_ns=6 * MS, rate=None).objection(0.1) == ""
    told = json.loads(record().line()) | {"strays": 2}
    assert "2 answers were not" in Record.of_line(json.dumps(told)).objection(0.1)
