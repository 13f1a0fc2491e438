"""Alarms are raised by what is planted, and seldom where nothing is."""

from __future__ import annotations

import random

import pytest

from harness.agreement import Class
from harness.core.run import Status
from harness.shadow.alarms import (
    Alarm,
    ChurnBound,
    DuplicatesBound,
    EmptyBound,
    Monitor,
    Share,
    State,
    churn,
    duplicates,
    empty,
)
from harness.shadow.record import Observation
from tests.make.shadow.attempts import attempt, seen, shed

pytestmark = pytest.mark.slow


SURE = 0.95


RUNS = 100
"""Of A/A traffic; at a confidence of 0.95 an alarm may be raised in 2.5 % of them."""


def after(monitor: Monitor, attempts: list[Observation]) -> Alarm:
    for one in attempts:
        monitor.see(one)
    return monitor.alarm()


def empties(number: int, control: int, candidate: int) -> Observation:
    return attempt(number, control=seen(hits=control), candidate=seen(hits=candidate))


def test_nothing_seen_is_too_early_to_say() -> None:
    for monitor in (
        empty(EmptyBound(max_excess=0.01), SURE),
        duplicates("candidate", DuplicatesBound(max_share=0.01), SURE),
        churn("candidate", ChurnBound(max_share=0.01, remember=10), SURE),
    ):
        found = monitor.alarm()
        assert (found.state, found.estimate, found.since) == (State.EARLY, None, None)


def test_a_candidate_that_loses_answers_is_seen() -> None:
    rng = random.Random(3)
    attempts = [empties(n, 5, 0 if rng.random() < 0.1 else 5) for n in range(1, 500)]
    alarm = after(empty(EmptyBound(max_excess=0.01), SURE), attempts)
    assert alarm.state is State.RAISED
    assert alarm.since is not None
    assert alarm.since < 450
    assert alarm.estimate is not None
    assert alarm.estimate.low > 0.01


def test_what_both_find_nothing_for_and_what_was_not_compared_says_nothing() -> None:
    monitor = empty(EmptyBound(max_excess=0.01), SURE)
    same = [empties(n, n % 2, n % 2) for n in range(1, 2000)]
    failed = seen(status=Status.FAILED, hits=0)
    torn = [
        attempt(n, outcome=Class.ERROR, jaccard=None, candidate=failed) for n in range(2000, 2400)
    ]
    alarm = after(monitor, [*same, *torn, *(shed(n) for n in range(2400, 2500))])
    assert alarm.state is State.QUIET
    assert alarm.estimate is not None
    assert (alarm.estimate.value, alarm.estimate.n) == (0, 1999)


def test_an_alarm_stays_raised_when_all_is_well_again() -> None:
    alarm = Share(("empty", "candidate", "told"), 0.95, 0.4, lambda one: float(one.number < 60))
    for number in range(1, 60):
        alarm.see(attempt(number))
    raised = alarm.alarm()
    assert raised.state is State.RAISED
    for number in range(60, 2_000):
        alarm.see(attempt(number))
    later = alarm.alarm()
    assert later.estimate is not None
    assert later.estimate.high <= 0.4, "the mean is within the bound again"
    assert (later.state, later.since) == (State.RAISED, raised.since)


def test_a_candidate_that_finds_more_is_no_alarm() -> None:
    attempts = [empties(n, n % 2, 5) for n in range(1, 600)]
    alarm = after(empty(EmptyBound(max_excess=0.01), SURE), attempts)
    assert alarm.state is State.QUIET


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_duplicates_are_of_one_arm(arm: str) -> None:
    def one(n: int) -> Observation:
        twice = seen(duplicates=n % 4 == 0)
        return attempt(n, control=twice) if arm == "control" else attempt(n, candidate=twice)

    attempts = [one(n) for n in range(1, 300)]
    monitors = {
        who: duplicates(who, DuplicatesBound(max_share=0.01), SURE)
        for who in ("control", "candidate")
    }
    said = {who: after(monitor, attempts).state for who, monitor in monitors.items()}
    assert said.pop(arm) is State.RAISED
    assert set(said.values()) == {State.EARLY}


def churning(remember: int = 100) -> Share:
    return churn("candidate", ChurnBound(max_share=0.01, remember=remember), SURE)


def test_another_answer_of_the_same_index_is_churn() -> None:
    attempts = [
        attempt(n, text=f"q{n % 7}", candidate=seen(answer=str(n // 7 % 2))) for n in range(1, 300)
    ]
    alarm = after(churning(), attempts)
    assert alarm.state is State.RAISED
    assert alarm.estimate is not None
    assert alarm.estimate.value == 1
    assert alarm.estimate.n == 299 - 7


def test_another_index_another_depth_and_the_other_arm_are_no_churn() -> None:
    def one(n: int) -> Observation:
        return attempt(
            n,
            text="q",
            k=10 + n % 2,
            control=seen(answer=str(n)),
            candidate=seen(answer=str((n // 200, n % 2)), generation=str(n // 200)),
        )

    alarm = after(churning(), [one(n) for n in range(1, 1200)])
    assert alarm.state is State.QUIET
    assert alarm.estimate is not None
    assert alarm.estimate.value == 0


def test_what_was_asked_longest_ago_is_forgotten() -> None:
    attempts = [attempt(n, text=f"q{n % 5}") for n in range(50)]
    assert after(churning(remember=4), attempts[1:]).estimate is None
    found = after(churning(remember=5), attempts[1:]).estimate
    assert found is not None
    assert found.n == 44


def test_steady_traffic_raises_an_alarm_as_rarely_as_promised() -> None:
    """A/A: the share lies at its bound, which is the worst case, and is looked at every time."""
    raised = 0
    for run in range(RUNS):
        rng = random.Random(run)
        monitor = duplicates("candidate", DuplicatesBound(max_share=0.1), SURE)
        attempts = [
            attempt(n, candidate=seen(duplicates=rng.random() < 0.1)) for n in range(1, 400)
        ]
        raised += after(monitor, attempts).state is State.RAISED
    assert raised <= 6  # a chance of 0.025 each: more than 6 of 100 in one of 200 such tests
