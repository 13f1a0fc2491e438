"""What a log says: counts that add up, estimates with their past, times of both clocks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from harness.agreement import Class, Tally
from harness.core.errors import EvidenceError
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow.summary import POINTS, MedianRatio, Summary, Track
from tests.make.shadow.attempts import attempt, bounds, seen, shed

FAILED = seen(status=Status.FAILED, hits=0)
LATE = seen(status=Status.TIMED_OUT, hits=0, elapsed_ns=9_000_000)


def mixed() -> Summary:
    summary = Summary(bounds())
    for one in (
        attempt(1, slices=("id",)),
        attempt(2, slices=("id", "old"), outcome=Class.OVERLAP, jaccard=0.5),
        attempt(3, outcome=Class.BOTH_EMPTY, jaccard=None, candidate=seen(hits=0)),
        attempt(4, outcome=Class.ERROR, jaccard=None, candidate=FAILED, reason="it broke"),
        attempt(5, outcome=Class.ERROR, jaccard=None, control=FAILED, reason="ours broke"),
        attempt(6, outcome=Class.TIMEOUT, jaccard=None, candidate=LATE, reason="late"),
        attempt(7, outcome=Class.STALE, jaccard=None, reason="it moved"),
        shed(9),
    ):
        summary.see(one)
    return summary


def test_every_attempt_is_counted_once() -> None:
    found = mixed()
    assert found.tally == Tally(attempted=8, compared=3, errored=3, skipped=1, shed=1)
    assert found.by_slice["id"] == {Class.EXACT: 1, Class.OVERLAP: 1}
    assert found.by_slice["(no slice)"].total() == 6
    assert found.reasons[Class.SHED, "the queue is full"] == 1
    assert found.missing == 1
    assert found.first is not None
    assert found.last is not None
    assert (found.first.number, found.last.number) == (1, 9)


def test_undefined_overlap_does_not_enter_the_mean() -> None:
    now = mixed().tracks["overlap"].now
    assert now is not None
    assert (now.value, now.n) == (0.75, 2)


def test_the_failures_are_the_candidates() -> None:
    found = mixed()
    assert found.failures == {"control": 1, "candidate": 2}
    now = found.tracks["failures"].now
    assert now is not None
    assert (now.value, now.n) == (2 / 7, 7)


def test_a_candidate_that_was_given_up_is_slow_and_one_that_failed_has_no_time() -> None:
    found = mixed()
    assert found.elapsed_ns("candidate").tolist() == [1_000_000] * 3 + [9_000_000, 1_000_000]
    assert found.elapsed_ns("control").tolist() == [1_000_000] * 5
    now = found.tracks["slow"].now
    assert now is not None
    assert (now.value, now.n) == (0.2, 5)


def test_who_served_is_counted_by_arm() -> None:
    assert mixed().served_by["candidate"] == {"engine": 5}


def test_an_empty_log_says_nothing() -> None:
    found = Summary(bounds())
    assert found.tally.attempted == 0
    assert {track.now for track in found.tracks.values()} == {None}


def test_a_track_is_thinned_and_ends_with_how_things_stand() -> None:
    count = 0

    def said() -> Estimate:
        return Estimate(0.5, 0.4, 0.6, count)

    track = Track(said)
    for at in range(5000):
        count += 1
        track.mark(at)
    points = track.points
    assert POINTS / 2 <= len(points) <= POINTS + 1
    assert [p.estimate.n for p in points] == sorted({p.estimate.n for p in points})
    assert (points[-1].estimate.n, points[-1].at) == (5000, 4999)
    gaps = np.diff([p.estimate.n for p in points[:-1]])
    assert set(gaps.tolist()) == {gaps[0]}


@pytest.mark.slow
def test_the_median_ratio_is_held_at_every_look() -> None:
    """Of 100 streams at a confidence of 0.9, at most about ten ever lose the true median."""
    lost = 0
    for run in range(100):
        rng = random.Random(run)
        median_ratio = MedianRatio(confidence=0.9)
        held = True
        for _ in range(200):
            median_ratio.update(1_000_000, round(1_000_000 * 1.5 * rng.lognormvariate(0, 0.7)))
            now = median_ratio.interval()
            held &= now.low <= 1.5 <= now.high
        lost += not held
    assert lost <= 16


def test_the_median_ratio_closes_in() -> None:
    rng = random.Random(1)
    median_ratio = MedianRatio(confidence=0.95)
    for _ in range(2000):
        median_ratio.update(1_000_000, round(2_000_000 * rng.lognormvariate(0, 0.3)))
    now = median_ratio.interval()
    assert now.value == pytest.approx(2, rel=0.05)
    assert 1.8 < now.low < 2 < now.high < 2.2


def test_a_median_off_the_grid_is_unbounded_and_not_invented() -> None:
    median_ratio = MedianRatio(confidence=0.95)
    for _ in range(100):
        median_ratio.update(1, 1000)
    assert median_ratio.interval().high == float("inf")
    assert median_ratio.interval().low >= 60


@pytest.mark.parametrize(("control", "candidate"), [(0, 5), (5, 0), (-1, 5)])
def test_a_time_that_is_none_is_refused(control: int, candidate: int) -> None:
    with pytest.raises(EvidenceError, match="no ratio"):
        MedianRatio(confidence=0.95).update(control, candidate)


def test_a_clock_that_did_not_tick_stops_nobody() -> None:
    found = Summary(bounds())
    found.see(attempt(1, control=seen(elapsed_ns=0), candidate=seen(elapsed_ns=0)))
    now = found.tracks["ratio"].now
    assert now is not None
    assert now.value == pytest.approx(1, rel=0.02)
