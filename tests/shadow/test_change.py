"""Alarms on change, and the file of bounds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp

from harness.core.errors import BadPolicy
from harness.shadow.alarms import (
    AlarmBounds,
    Alarms,
    AlarmState,
    WatchSettings,
    WindowBound,
    WindowChange,
    Windows,
    distance,
    gap,
    mix,
    scores,
)
from harness.shadow.settings import read_bounds
from tests.make.shadow_records import WATCH, attempt, seen, shed

SURE = WatchSettings(confidence=0.95, slow_ratio=2, seed=5, resamples=499)
SLICES = ("identifier", "phrase", "natural language")


def of_scores() -> Windows[float]:
    return scores("candidate", WindowBound(window=50, max_distance=0.2, p_value=0.01), SURE)


def of_slices() -> Windows[str]:
    return mix(WindowBound(window=100, max_distance=0.01, p_value=0.01), SURE)


def test_windows_do_not_overlap_and_are_held_against_the_first() -> None:
    found = []

    def change(first: tuple[int, ...], later: tuple[int, ...], at: int) -> WindowChange:
        found.append((first, later, at))
        return WindowChange(0.0, 1.0)

    bound = WindowBound(window=20, max_distance=0.2, p_value=0.01)
    said = "scores", "candidate", ""
    windows: Windows[int] = Windows(said, bound, lambda one: one.number, change)
    for value in range(1, 71):
        if not found:
            assert windows.alarm().note.startswith(f"{41 - value} more")
        windows.see(attempt(value))
    whole = [tuple(range(start, start + 20)) for start in (1, 21, 41)]
    assert found == [(whole[0], whole[1], 1), (whole[0], whole[2], 2)]


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
    monitor = scores("candidate", WindowBound(window=500, max_distance=0.2, p_value=0.05), SURE)
    for n in range(1, 1001):
        collapsed = n > 500 and n % 10 < 10 * share
        monitor.see(attempt(n, candidate=seen(top=0.1 if collapsed else 0.5 + n % 500 / 1000)))
    found = monitor.alarm()
    assert float(found.note.split()[1].rstrip(";")) <= 0.05
    assert found.state is said


def test_an_alarm_that_is_over_is_quiet_and_says_since_when() -> None:
    monitor = of_scores()
    for n in range(1, 151):
        monitor.see(attempt(n, candidate=seen(top=0.2 if 50 < n <= 100 else 0.8)))
    found = monitor.alarm()
    assert (found.state, found.since) == (AlarmState.QUIET, 100)
    assert found.note.endswith("raised by 1 of 2 windows")


@pytest.mark.parametrize(
    ("names", "said", "since"), [(SLICES, AlarmState.RAISED, 300), ((), AlarmState.QUIET, None)]
)
def test_a_mix_that_moves_is_seen_and_traffic_without_slices_has_one(
    names: tuple[str, ...], said: AlarmState, since: int | None
) -> None:
    rng = random.Random(3)
    monitor = of_slices()
    for n in range(1, 301):
        slices = (SLICES[0],) if n > 200 and rng.random() < 0.6 else (rng.choice(SLICES),)
        monitor.see(attempt(n, slices=slices if names else ()))
    assert (monitor.alarm().state, monitor.alarm().since) == (said, since)


def test_the_divergence_is_that_of_scipy() -> None:
    rng = random.Random(4)
    first = tuple(rng.choices("abcd", (4, 3, 2, 0), k=80))
    later = tuple(rng.choices("abcd", (1, 3, 2, 2), k=80))
    ours, theirs = ([float(sample.count(name)) for name in "abcd"] for sample in (first, later))
    found = distance(first, later, seed=(1, 1), resamples=99)
    assert found.size == pytest.approx(jensenshannon(ours, theirs, base=2) ** 2)
    assert found.p_value == 0.01


def test_the_gap_and_its_p_value_are_those_of_scipy() -> None:
    rng = np.random.default_rng(5)
    first, later = rng.uniform(0, 1, 60), rng.uniform(0, 0.9, 60)
    found = gap(first, later, seed=(1, 1), resamples=9999)
    theirs = ks_2samp(first, later, method="exact")
    assert found.size == pytest.approx(theirs.statistic)
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.02)


def test_ties_are_passed_at_once() -> None:
    first, later = np.array([1.0, 1.0, 2.0, 2.0]), np.array([2.0, 2.0, 1.0, 1.0])
    assert gap(first, later, seed=(1, 1), resamples=99) == WindowChange(0.0, 1.0)


@pytest.mark.parametrize("what", ["scores", "mix"])
def test_steady_traffic_raises_an_alarm_as_rarely_as_promised(what: str) -> None:
    """A/A with no bound on the size of the change: a share of p_value of all windows."""
    raised = 0
    for run in range(200):
        rng = np.random.default_rng(run)
        if what == "scores":
            both = rng.beta(4, 2, (2, 50))
            found = gap(both[0], both[1], seed=(run, 1), resamples=199)
        else:
            named = rng.choice(SLICES, (2, 60), p=(0.2, 0.3, 0.5)).tolist()
            found = distance(tuple(named[0]), tuple(named[1]), seed=(run, 1), resamples=199)
        raised += found.p_value <= 0.05
    assert 1 <= raised <= 20  # binomial(200, 0.05) leaves this in one of 300 such tests


TEXT = WATCH.read_text(encoding="utf-8")
LINES = [line for line in TEXT.splitlines() if "=" in line and line[0] != "#"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("slow_ratio = 2.0", "slow_ratio = 0.5", "watch.slow_ratio"),
        ("confidence = 0.95", "confidence = 95", "watch.confidence"),
        ("max_distance = 0.20", 'max_distance = "a fifth"', "alarm.scores.max_distance"),
        ("window = 500", "window = 3", "window"),
        ("remember = 100000", "remembers = 1", "alarm.churn.remembers: unknown key"),
        *((f"\n{line}", "\n", f"{(key := line.split()[0])}: is missing. Write {key} = ")
          for line in LINES),
    ],
)  # fmt: skip
def test_nothing_has_a_default_and_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in TEXT
    path = tmp_path / "watch.toml"
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read_bounds(path)
    assert raised.value.line is not None
    if new.strip():
        line = path.read_text(encoding="utf-8").splitlines()[raised.value.line - 1]
        assert line.startswith(new.split(maxsplit=1)[0])


def test_every_alarm_has_a_table() -> None:
    assert isinstance(read_bounds(WATCH), AlarmBounds)
    assert list(Alarms.model_fields) == ["empty", "duplicates", "churn", "scores", "mix"]
