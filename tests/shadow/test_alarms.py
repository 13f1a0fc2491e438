"""Alarms are raised by what is planted, and seldom where nothing is."""

import random
from collections.abc import Iterable

import pytest

from harness.agreement import Class
from harness.core.run import Status
from harness.shadow.record import Observation
from harness.shadow.summary import (
    Alarm,
    AlarmState,
    ChurnBound,
    DuplicatesBound,
    EmptyBound,
    ScoresBound,
    Share,
    churn,
    duplicates,
    empty,
    scores,
)
from tests.make.shadow_records import attempt, seen, shed

pytestmark = pytest.mark.slow

SURE = 0.95
FAILED = seen(status=Status.FAILED, hits=0)


def emptying() -> Share:
    return empty(EmptyBound(max_excess=0.01), SURE)


def repeating(arm: str = "candidate", share: float = 0.01) -> Share:
    return duplicates(arm, DuplicatesBound(max_share=share), SURE)


def churning(remember: int = 100) -> Share:
    return churn("candidate", ChurnBound(max_share=0.01, remember=remember), SURE)


def after(monitor: Share, attempts: Iterable[Observation]) -> Alarm:
    for one in attempts:
        monitor.see(one)
    return monitor.alarm()


def empties(number: int, control: int, candidate: int) -> Observation:
    return attempt(number, control=seen(hits=control), candidate=seen(hits=candidate))


def lossy(rng: random.Random) -> list[Observation]:
    return [empties(n, 5, 0 if rng.random() < 0.1 else 5) for n in range(1, 500)]


def torn(number: int) -> Observation:
    return attempt(number, outcome=Class.ERROR, jaccard=None, candidate=FAILED)


def another_index(number: int) -> Observation:
    answer, index = str((number // 200, number % 2)), str(number // 200)
    sides = seen(answer=str(number)), seen(answer=answer, generation=index)
    return attempt(number, text="q", k=10 + number % 2, control=sides[0], candidate=sides[1])


@pytest.mark.parametrize(
    ("monitor", "attempts", "state", "value", "n"),
    [
        pytest.param(emptying(), [], AlarmState.EARLY, None, 0, id="nothing seen: empty"),
        pytest.param(repeating(), [], AlarmState.EARLY, None, 0, id="nothing seen: duplicates"),
        pytest.param(churning(), [], AlarmState.EARLY, None, 0, id="nothing seen: churn"),
        pytest.param(
            emptying(),
            [*(empties(n, n % 2, n % 2) for n in range(1, 2000)), *map(torn, range(2000, 2400)),
             *map(shed, range(2400, 2500))],
            AlarmState.QUIET, 0, 1999, id="both find nothing, fail or are shed",
        ),
        pytest.param(
            emptying(), [empties(n, n % 2, 5) for n in range(1, 600)],
            AlarmState.QUIET, -299 / 599, 599,
            id="a candidate that finds more",
        ),
        pytest.param(
            churning(),
            [attempt(n, text=f"q{n % 7}", candidate=seen(answer=str(n // 7 % 2)))
             for n in range(1, 300)],
            AlarmState.RAISED, 1, 299 - 7, id="another answer of the same index",
        ),
        pytest.param(
            churning(), [*map(another_index, range(1, 1200))], AlarmState.QUIET, 0, 1187,
            id="another index, another depth, the other arm",
        ),
        pytest.param(
            churning(4), [attempt(n, text=f"q{n % 5}") for n in range(1, 50)],
            AlarmState.EARLY, None, 0,
            id="asked longest ago and forgotten",
        ),
        pytest.param(
            churning(5), [attempt(n, text=f"q{n % 5}") for n in range(1, 50)],
            AlarmState.EARLY, 0, 44,
            id="asked longest ago and remembered",
        ),
    ],
)  # fmt: skip
def test_what_an_alarm_measures(
    monitor: Share, attempts: list[Observation], state: AlarmState, value: float | None, n: int
) -> None:
    found = after(monitor, attempts)
    assert (found.state, found.since is None) == (state, state is not AlarmState.RAISED)
    assert (found.estimate.value if found.estimate else None) == (
        value if value is None else pytest.approx(value)
    )
    assert (found.estimate.n if found.estimate else 0) == n


def test_a_candidate_that_loses_answers_is_seen() -> None:
    alarm = after(emptying(), lossy(random.Random(3)))
    assert alarm.state is AlarmState.RAISED
    assert (alarm.since or 500) < 450
    assert alarm.estimate is not None
    assert alarm.estimate.low > 0.01


def test_an_alarm_stays_raised_when_all_is_well_again() -> None:
    alarm = Share(("empty", "candidate", "told"), 0.95, 0.4, lambda one: float(one.number < 60))
    raised = after(alarm, map(attempt, range(1, 60)))
    later = after(alarm, map(attempt, range(60, 2_000)))
    assert later.estimate is not None
    assert later.estimate.high <= 0.4, "the mean is within the bound again"
    assert (later.state, later.since) == (AlarmState.RAISED, raised.since)


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_duplicates_are_of_one_arm(arm: str) -> None:
    def one(number: int) -> Observation:
        twice = seen(duplicates=number % 4 == 0)
        return (
            attempt(number, control=twice) if arm == "control" else attempt(number, candidate=twice)
        )

    attempts = [one(n) for n in range(1, 300)]
    said = {who: after(repeating(who), attempts).state for who in ("control", "candidate")}
    assert said.pop(arm) is AlarmState.RAISED
    assert set(said.values()) == {AlarmState.EARLY}


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scores_that_collapse_or_jump_are_seen(scale: float) -> None:
    rng = random.Random(1)
    monitor = scores("candidate", ScoresBound(window=50, max_share=0.05), SURE)
    for n in range(1, 201):
        top = rng.uniform(0.6, 1.0) * (scale if n > 100 else 1)
        monitor.see(attempt(n, candidate=seen(top=top)))
        monitor.see(attempt(n, candidate=seen(hits=0)))
        monitor.see(shed(n))
        if n == 50:
            assert monitor.alarm().state is AlarmState.EARLY
            assert monitor.alarm().estimate is None, "these are the range"
        if n == 100:
            assert monitor.alarm().since is None
    found = monitor.alarm()
    assert found.state is AlarmState.RAISED
    assert 100 < (found.since or 0) < 150
    assert found.estimate is not None
    assert found.estimate.n == 150
