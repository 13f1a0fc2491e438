"""Alarms are raised by what is planted, and seldom where nothing is."""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from scipy.stats import ks_2samp

from harness.agreement import Class
from harness.core.run import Status
from harness.shadow.record import Observation
from harness.shadow.summary import (
    Alarm,
    AlarmState,
    ChurnBound,
    DuplicatesBound,
    EmptyBound,
    Monitor,
    Share,
    WatchSettings,
    WindowBound,
    Windows,
    churn,
    duplicates,
    empty,
    gap,
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


WATCHED = WatchSettings(confidence=0.95, slow_ratio=2, seed=5, resamples=499)


def of_scores() -> Windows:
    return Windows("candidate", WindowBound(window=50, max_distance=0.2, p_value=0.01), WATCHED)


def test_scores_that_collapse_are_seen_and_said() -> None:
    rng = random.Random(1)
    monitor = of_scores()
    for n in range(1, 151):
        top = rng.uniform(0.6, 1.0) * (0.5 if n > 100 else 1)
        monitor.see(attempt(n, candidate=seen(top=top)))
        monitor.see(attempt(n, candidate=seen(hits=0)))
        monitor.see(shed(n))
        if n == 99:
            assert monitor.alarm().state is AlarmState.EARLY
            assert monitor.alarm().note == "1 more until two windows can be compared"
        if n == 100:
            assert monitor.alarm().state is AlarmState.QUIET
    found = monitor.alarm()
    assert (found.state, found.since) == (AlarmState.RAISED, 150)
    assert found.estimate is not None
    assert found.estimate.value > 0.8
    assert found.note == "p 0.0020; raised by 1 of 2 windows"


@pytest.mark.parametrize(("share", "said"), [(0.1, AlarmState.QUIET), (0.5, AlarmState.RAISED)])
def test_a_change_that_is_sure_and_small_is_no_alarm(share: float, said: AlarmState) -> None:
    bound = WindowBound(window=500, max_distance=0.2, p_value=0.05)
    monitor = Windows("candidate", bound, WATCHED)
    for n in range(1, 1001):
        collapsed = n > 500 and n % 10 < 10 * share
        monitor.see(attempt(n, candidate=seen(top=0.1 if collapsed else 0.5 + n % 500 / 1000)))
    found = monitor.alarm()
    assert float(found.note.split()[1].rstrip(";")) <= 0.05
    assert found.state is said


def test_the_gap_and_its_p_value_are_those_of_scipy() -> None:
    rng = np.random.default_rng(5)
    first, later = rng.uniform(0, 1, 60), rng.uniform(0, 0.9, 60)
    size, p_value = gap(first, later, seed=(1, 1), resamples=9999)
    theirs = ks_2samp(first, later, method="exact")
    assert size == pytest.approx(theirs.statistic)
    assert p_value == pytest.approx(theirs.pvalue, abs=0.02)


def test_ties_are_passed_at_once() -> None:
    first, later = np.array([1.0, 1.0, 2.0, 2.0]), np.array([2.0, 2.0, 1.0, 1.0])
    assert gap(first, later, seed=(1, 1), resamples=99) == (0.0, 1.0)


def test_windows_of_steady_traffic_raise_an_alarm_as_rarely_as_promised() -> None:
    """A/A with no bound on the size of the change: a share of p_value of all windows."""
    raised = 0
    for run in range(200):
        both = np.random.default_rng(run).beta(4, 2, (2, 50))
        raised += gap(both[0], both[1], seed=(run, 1), resamples=199)[1] <= 0.05
    assert 1 <= raised <= 20  # binomial(200, 0.05) leaves this in one of 300 such tests
