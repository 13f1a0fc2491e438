"""Alarms are raised by what is planted, and seldom where nothing is."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from harness.agreement import Class
from harness.core.run import Status
from harness.shadow import summary
from harness.shadow.record import Observation
from tests.make.shadow_records import attempt, seen, shed

pytestmark = pytest.mark.slow

SURE = 0.95
FAILED = seen(status=Status.FAILED, hits=0)


def emptying() -> summary.Share:
    return summary.empty(summary.EmptyBound(max_excess=0.01), SURE)


def repeating(arm: str = "candidate") -> summary.Share:
    return summary.duplicates(arm, summary.DuplicatesBound(max_share=0.01), SURE)


def churning(remember: int = 100) -> summary.Share:
    bound = summary.ChurnBound(max_share=0.01, remember=remember)
    return summary.churn("candidate", bound, SURE)


def after(monitor: summary.Share, attempts: Iterable[Observation]) -> summary.Alarm:
    for one in attempts:
        monitor.see(one)
    return monitor.alarm()


def empties(number: int, control: int, candidate: int) -> Observation:
    return attempt(number, control=seen(hits=control), candidate=seen(hits=candidate))


def test_a_candidate_that_loses_answers_is_seen() -> None:
    rng = random.Random(3)
    lossy = [empties(n, 5, 0 if rng.random() < 0.1 else 5) for n in range(1, 500)]
    alarm = after(emptying(), lossy)
    assert alarm.state is summary.AlarmState.RAISED
    assert (alarm.since or 500) < 450
    assert alarm.estimate is not None
    assert alarm.estimate.low > 0.01


def torn(number: int) -> Observation:
    return attempt(number, outcome=Class.ERROR, jaccard=None, candidate=FAILED)


def another_index(number: int) -> Observation:
    answer, index = str((number // 200, number % 2)), str(number // 200)
    sides = seen(answer=str(number)), seen(answer=answer, generation=index)
    return attempt(number, text="q", k=10 + number % 2, control=sides[0], candidate=sides[1])


def of_five() -> list[Observation]:
    return [attempt(n, text=f"q{n % 5}") for n in range(1, 50)]


CASES: dict[str, tuple[summary.Share, Iterable[Observation], str, float | None, int]] = {
    "nothing seen: empty": (emptying(), [], "early", None, 0),
    "nothing seen: duplicates": (repeating(), [], "early", None, 0),
    "nothing seen: churn": (churning(), [], "early", None, 0),
    "both find nothing, fail or are shed": (
        emptying(),
        [*(empties(n, n % 2, n % 2) for n in range(1, 2000)), *map(torn, range(2000, 2400)),
         *map(shed, range(2400, 2500))],
        "quiet", 0, 1999,
    ),
    "a candidate that finds more": (
        emptying(), [empties(n, n % 2, 5) for n in range(1, 600)], "quiet", -299 / 599, 599,
    ),
    "another answer of the same index": (
        churning(),
        [attempt(n, text=f"q{n % 7}", candidate=seen(answer=str(n // 7 % 2)))
         for n in range(1, 300)],
        "raised", 1, 299 - 7,
    ),
    "another index, another depth, the other arm": (
        churning(), map(another_index, range(1, 1200)), "quiet", 0, 1187,
    ),
    "asked longest ago and forgotten": (churning(4), of_five(), "early", None, 0),
    "asked longest ago and remembered": (churning(5), of_five(), "early", 0, 44),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_an_alarm_measures(case: str) -> None:
    monitor, attempts, state, value, n = CASES[case]
    found = after(monitor, attempts)
    assert (found.state, found.since is None) == (state, state != "raised")
    estimate = found.estimate and (found.estimate.value, found.estimate.n)
    assert estimate == (pytest.approx((value, n)) if n else None)


def test_an_alarm_stays_raised_when_all_is_well_again() -> None:
    alarm = summary.Share(
        ("empty", "candidate", "told"), 0.95, 0.4, lambda one: float(one.number < 60)
    )
    raised = after(alarm, map(attempt, range(1, 60)))
    later = after(alarm, map(attempt, range(60, 2_000)))
    assert later.estimate is not None
    assert later.estimate.high <= 0.4, "the mean is within the bound again"
    assert (later.state, later.since) == (summary.AlarmState.RAISED, raised.since)


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_duplicates_are_of_one_arm(arm: str) -> None:
    sides: list[dict[str, Any]] = [{arm: seen(duplicates=n % 4 == 0)} for n in range(1, 300)]
    attempts = [attempt(n, **side) for n, side in enumerate(sides, start=1)]
    said = {who: after(repeating(who), attempts).state for who in ("control", "candidate")}
    assert said.pop(arm) is summary.AlarmState.RAISED
    assert set(said.values()) == {summary.AlarmState.EARLY}


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scores_that_collapse_or_jump_are_seen(scale: float) -> None:
    rng = random.Random(1)
    monitor = summary.scores("candidate", summary.ScoresBound(window=50, max_share=0.05), SURE)
    for n in range(1, 201):
        top = rng.uniform(0.6, 1.0) * (scale if n > 100 else 1)
        monitor.see(attempt(n, candidate=seen(top=top)))
        monitor.see(attempt(n, candidate=seen(hits=0)))
        monitor.see(shed(n))
        if n == 50:
            assert monitor.alarm().state is summary.AlarmState.EARLY
            assert monitor.alarm().estimate is None, "these are the range"
        if n == 100:
            assert monitor.alarm().since is None
    found = monitor.alarm()
    assert found.state is summary.AlarmState.RAISED
    assert 100 < (found.since or 0) < 150
    assert found.estimate is not None
    assert found.estimate.n == 150
