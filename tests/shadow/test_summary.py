"""What a log says, also while it grows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.agreement import Class, ComparisonTally
from harness.core.run import Status
from harness.shadow import log as shadow_log
from harness.shadow.log import Follower, LogWriter, Tail
from harness.shadow.record import Degradation, Observation, ProblemKind
from harness.shadow.summary import MedianRatio, Summary
from tests.make.shadow_records import START, attempt, bounds, divergence, seen, shed

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
    assert found.tally == ComparisonTally(attempted=8, compared=3, errored=3, skipped=1, shed=1)
    assert found.by_slice["id"] == {Class.EXACT: 1, Class.OVERLAP: 1}
    assert found.by_slice["(no slice)"].total() == 6
    assert found.reasons[Class.SHED, "the queue is full"] == 1
    assert found.missing == 1
    assert found.first is not None
    assert found.last is not None
    assert (found.first.number, found.last.number) == (1, 9)


@pytest.mark.parametrize(
    ("track", "value", "n"),
    [("overlap", 0.75, 2), ("failures", 2 / 7, 7), ("slow", 0.2, 5), ("ratio", 1.0, 5)],
)
def test_an_estimate_is_of_the_pairs_for_which_it_is_defined(
    track: str, value: float, n: int
) -> None:
    """One given up is slow; one that failed has no time; an undefined overlap is in no mean."""
    now = mixed().tracks[track].now
    assert now is not None
    assert now.value == pytest.approx(value, rel=0.02)
    assert now.n == n


def test_failures_and_times_are_counted_by_arm() -> None:
    found = mixed()
    assert found.failures == {"control": 1, "candidate": 2}
    assert found.elapsed_ns("candidate").tolist() == [1_000_000] * 3 + [9_000_000, 1_000_000]
    assert found.elapsed_ns("control").tolist() == [1_000_000] * 5
    assert found.served_by["candidate"] == {"engine": 5}


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


def test_the_median_ratio_closes_in_and_off_the_grid_is_unbounded() -> None:
    rng = random.Random(1)
    median_ratio, far = MedianRatio(confidence=0.95), MedianRatio(confidence=0.95)
    for _ in range(2000):
        median_ratio.update(1_000_000, round(2_000_000 * rng.lognormvariate(0, 0.3)))
    now = median_ratio.interval()
    assert now.value == pytest.approx(2, rel=0.05)
    assert 1.8 < now.low < 2 < now.high < 2.2
    for _ in range(100):
        far.update(1, 1000)
    assert (far.interval().low >= 60, far.interval().high) == (True, float("inf"))


def log(folder: Path, rotate_bytes: int = 2000) -> LogWriter:
    return LogWriter(folder, rotate_bytes=rotate_bytes, sync_ns=10**12)


def batch(folder: LogWriter, first: int, count: int) -> None:
    folder.append([attempt(n) for n in range(first, first + count)], [], [])


def test_a_follower_sees_what_the_reader_of_the_whole_sees(tmp_path: Path) -> None:
    with log(tmp_path) as writer:
        follower, summary = Follower([tmp_path]), Summary(bounds())
        for first in range(1, 60, 7):
            batch(writer, first, 7)
            other = attempt(100 + first, outcome=Class.DISJOINT, jaccard=0.0)
            found = divergence(100 + first, Class.DISJOINT, ["a"], ["b"])
            note = Degradation(5, "w1", START, "candidate", ProblemKind.CRASH, "it ended")
            writer.append([other], [found], [note])
            summary.read(follower)
            assert summary.tally.attempted == first // 7 * 8 + 8
        summary.read(follower)
    whole = shadow_log.read_logs(tmp_path)
    assert summary.tally == whole.tally
    assert summary.missing == whole.missing
    assert summary.degradations == {("candidate", ProblemKind.CRASH): 9}
    assert [(t.times, t.text) for t in summary.diverging.traces()] == [(9, "a query")]


def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    with log(tmp_path, 10**6) as writer:
        batch(writer, 1, 2)
    file = shadow_log.path(tmp_path, Observation, 1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    tail = Tail(tmp_path, Observation)
    assert [one.number for one in tail.new()] == [1]
    file.write_bytes(whole)
    assert [one.number for one in tail.new()] == [2]
