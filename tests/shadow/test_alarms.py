"""Alarms are raised by what is planted, and seldom where nothing is."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from harness.agreement import Class
from harness.core.run import Status
from harness.shadow.alarms import (
    Alarm,
    AlarmState,
    ChurnBound,
    DuplicatesBound,
    EmptyBound,
    Monitor,
    Share,
    churn,
    duplicates,
    empty,
)
from harness.shadow.record import Observation
from tests.make.shadow_records import attempt, seen, shed

pytestmark = pytest.mark.slow

SURE = 0.95
RUNS = 100
"""Of A/A traffic; at a confidence of 0.95 an alarm may be raised in 2.5 % of them."""
FAILED = seen(status=Status.FAILED, hits=0)


def emptying() -> Share:
    return empty(EmptyBound(max_excess=0.01), SURE)


def repeating(arm: str = "candidate", share: float = 0.01) -> Share:
    return duplicates(arm, DuplicatesBound(max_share=share), SURE)


def churning(remember: int = 100) -> Share:
    return churn("candidate", ChurnBound(max_share=0.01, remember=remember), SURE)


def after(monitor: Monitor, attempts: Iterable[Observation]) -> Alarm:
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


def test_steady_traffic_raises_an_alarm_as_rarely_as_promised() -> None:
    """A/A: the share lies at its bound, which is the worst case, and is looked at every time."""
    raised = 0
    for run in range(RUNS):
        rng = random.Random(run)
        attempts = [
            attempt(n, candidate=seen(duplicates=rng.random() < 0.1)) for n in range(1, 400)
        ]
        raised += after(repeating(share=0.1), attempts).state is AlarmState.RAISED
    assert raised <= 6  # a chance of 0.025 each: more than 6 of 100 in one of 200 such tests
