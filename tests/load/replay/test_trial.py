"""A trial in numbers: failures are no times, and the generator answers for its own lag."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.run import Status
from harness.load.trial import Trial, summed
from harness.load.workers import Mix, Part, Plan, Served, poisson
from tests.make.virtual import MS, S, plan_of, questions, serve, steady

pytestmark = pytest.mark.slow

QUERIES = questions(30)
ARRIVALS = poisson(Mix(QUERIES, {"short": 2, "long": 1}), 100.0, 30.0, (1,))
PLAN = plan_of(QUERIES, ARRIVALS, 30.0)
BUDGETS = (5 * MS, 15 * MS)


def part(served: list[Served], cpu_ns: int = 5, resident: int = 30) -> Part:
    return Part(tuple(served), ((PLAN.picks[0], 9 * MS),), cpu_ns, 10, resident, 40, 0)


def summary(*parts: Part, plan: Plan = PLAN) -> Trial:
    classes = ARRIVALS.classes if plan is PLAN else ("all",) * len(plan.picks)
    return summed(plan, classes, parts, budgets_ns=BUDGETS, confidence=0.95)


@pytest.fixture
def served() -> list[Served]:
    return serve(PLAN, steady(4 * MS))


def test_percentiles_are_those_of_the_response_times(served: list[Served]) -> None:
    trial = summary(part(served))
    times = [one.response_ns for one in served]
    assert set(trial.percentiles) == {"p50", "p90", "p95", "p99"}
    for name, found in trial.percentiles.items():
        assert found.value == pytest.approx(np.percentile(times, float(name[1:])))
        assert found.low <= found.value <= found.high
    assert trial.overall.percentile(99) == pytest.approx(np.percentile(times, 99), rel=0.01)
    assert trial.arrivals == len(served) == trial.overall.count
    assert trial.rate == pytest.approx(100, rel=0.05)


def test_shards_of_a_trial_are_the_trial(served: list[Served]) -> None:
    whole, halves = summary(part(served)), summary(part(served[1::2]), part(served[::2]))
    assert halves.percentiles == whole.percentiles
    assert halves.within == whole.within
    for name in ("short", "long"):
        assert halves.response[name].encoded() == whole.response[name].encoded()
        assert halves.service[name].encoded() == whole.service[name].encoded()


def test_classes_are_kept_apart(served: list[Served]) -> None:
    trial = summary(part(served))
    assert set(trial.response) == {"short", "long"}
    counts = {name: ARRIVALS.classes.count(name) for name in trial.response}
    assert {name: of.count for name, of in trial.response.items()} == counts
    assert {name: of.percentile(50) for name, of in trial.service.items()} == {
        name: pytest.approx(4 * MS, rel=1e-3) for name in counts
    }


def test_cold_questions_stand_by_themselves(served: list[Served]) -> None:
    rows = dict(zip(PLAN.picks, ARRIVALS.classes, strict=True))
    first = PLAN.picks[0]
    other = next(row for row in PLAN.picks if rows[row] != rows[first])
    cold = Part(tuple(served), ((first, 9 * MS), (other, 7 * MS)), 5, 10, 30, 40, 0)
    trial = summary(cold)
    assert {name: of.count for name, of in trial.cold.items()} == {"short": 1, "long": 1}
    assert trial.cold[rows[first]].percentile(50) == pytest.approx(9 * MS, rel=1e-3)


def test_what_failed_is_no_time_and_within_no_budget(served: list[Served]) -> None:
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


def test_what_was_never_asked_counts_too(served: list[Served]) -> None:
    trial = summary(part(served[: len(served) // 2]))
    assert trial.arrivals == len(ARRIVALS)
    assert trial.ends[Status.NOT_ASKED] == len(ARRIVALS) - len(served) // 2
    assert trial.within[15 * MS] < 0.51


def test_a_budget_is_kept_by_a_share_of_the_arrivals(served: list[Served]) -> None:
    trial = summary(part(served))
    share = float(np.mean([one.response_ns <= 5 * MS for one in served]))
    assert trial.within[5 * MS] == pytest.approx(share)
    assert trial.keeps(5 * MS, 100 * share)
    assert not trial.keeps(5 * MS, 100 * share + 0.1)


def test_a_generator_that_is_late_says_so() -> None:
    fine = summary(part(serve(PLAN, steady(4 * MS))))
    late = summary(part(serve(PLAN, steady(4 * MS), late_ns=6 * MS)))
    assert fine.lag_ns == 0
    assert late.lag_ns == 6 * MS
    assert not fine.lags(0.1)
    assert late.lags(0.1)
    assert not late.lags(0.9)


def test_a_queue_is_no_lag() -> None:
    trial = summary(part(serve(PLAN, steady(9 * MS))))
    assert (trial.overall.percentile(99) or 0) > 30 * MS
    assert not trial.lags(0.001)


def test_costs_are_added_and_memory_is_the_largest(served: list[Served]) -> None:
    trial = summary(part(served[::2], 5, 30), part(served[1::2], 6, 90))
    assert (trial.cpu_ns, trial.opened_bytes, trial.resident_bytes, trial.peak_bytes) == (
        11, 80, 90, 40,
    )  # fmt: skip


def test_a_trial_without_any_answer_has_no_percentile() -> None:
    trial = summary(part([]))
    assert trial.percentiles == {}
    assert trial.rate == 0.0
    assert not trial.keeps(15 * MS, 99.0)
    assert not trial.lags(0.5)


def test_a_closed_loop_is_summed_alike() -> None:
    plan = plan_of(QUERIES, None, 1.0)
    trial = summary(part(serve(plan, steady(10 * MS))), plan=plan)
    assert trial.arrivals == 100
    assert trial.rate == pytest.approx(S / (10 * MS))
    assert trial.percentiles["p50"].value == 10 * MS
