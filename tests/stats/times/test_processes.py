"""Percentiles and ratios over several processes: what they show, and how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.simulated_races import covered
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.counter_rng import Purpose, picks
from harness.stats.inference import Inference
from harness.stats.times import processes
from harness.stats.times.processes import aa_ratio, fewest_for, percentile

Times = NDArray[np.int64]
INFERENCE = Inference(confidence=0.95, resamples=500, seed=1)


def times(
    seed: int, queries: int = 200, *, factor: float = 1.0, apart: float = 0.0, count: int = 4
) -> Times:
    """Draw times of ``count`` processes that are ``apart`` in the spread of their logarithms."""
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(99).lognormal(13, 0.5, queries)
    level = np.exp(apart * rng.normal(size=(count, 1)))
    noise = rng.lognormal(0, 0.05, (count, queries))
    return np.asarray(factor * hard * level * noise, dtype=np.int64)


def ratio(candidate: Times, control: Times, percent: float | None = 50.0) -> Estimate:
    return processes.ratio(candidate, control, percent, inference=INFERENCE)


def width(estimate: Estimate) -> float:
    return math.log(estimate.high / estimate.low)


def test_the_percentile_is_over_all_times() -> None:
    elapsed = np.array([[10, 20], [30, 40]], dtype=np.int64)
    assert percentile(elapsed, 50, confidence=0.95).value == pytest.approx(25)


def test_equal_processes_leave_the_interval_of_the_order_statistics() -> None:
    """Of 20 queries the 6th and the 15th hold the median at 95.9 %, as textbooks print it."""
    elapsed = np.tile(np.arange(1, 21, dtype=np.int64), (3, 1))
    found = percentile(elapsed, 50, confidence=0.95)
    assert (found.low, found.high) == pytest.approx((6, 15))
    assert found.n == 20


def test_a_ratio_finds_a_planted_factor() -> None:
    control = times(1)
    for percent in (50.0, 95.0, None):
        estimate = ratio(3 * control, control, percent)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((3, 3, 3))
        assert estimate.n == 200


@pytest.mark.parametrize("percent", [50.0, 95.0, None])
def test_the_resampled_statistic_is_numpys(percent: float | None) -> None:
    """Sorted once and counted, against sorted every time."""
    elapsed = times(1, 30).astype(np.float64)
    drawn = processes.resampled(elapsed, percent, 40, 5)
    rows = picks(5, Purpose.TIMES, first=0, rows=40, units=30)
    each = [elapsed[:, row] for row in rows]
    plain = [one.mean() if percent is None else np.percentile(one, percent) for one in each]
    np.testing.assert_allclose(drawn, plain, rtol=1e-12)


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ratio(times(2), times(3))
    monkeypatch.setattr(processes, "TIMES_AT_ONCE", 2_000)
    processes._resampled.cache_clear()  # noqa: SLF001  else the first answer is given again
    assert ratio(times(2), times(3)) == whole


def test_what_is_kept_is_not_written_to_and_not_taken_for_another() -> None:
    elapsed = times(1, 30).astype(np.float64)
    kept = processes.resampled(elapsed, 95, 40, 5)
    assert processes.resampled(elapsed.copy(), 95, 40, 5) is kept
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 0
    folded = elapsed.reshape(elapsed.shape[0] * 2, -1)
    for other in (
        processes.resampled(folded, 95, 40, 5),
        processes.resampled(elapsed + 1, 95, 40, 5),
        processes.resampled(elapsed, 50, 40, 5),
        processes.resampled(elapsed, 95, 40, 6),
    ):
        assert not np.array_equal(other, kept)


def test_processes_that_differ_widen_every_interval() -> None:
    """Queries alone would say that 200 are many."""
    steady, moving = times(1), times(1, apart=0.1)
    control = times(2)
    assert width(ratio(moving, control)) > 2 * width(ratio(steady, control))
    narrow, wide = (percentile(each, 50, confidence=0.95) for each in (steady, moving))
    assert width(wide) > 1.2 * width(narrow)


def test_more_processes_narrow_it() -> None:
    few, many = (ratio(times(1, apart=0.1, count=n), times(2, count=n)) for n in (3, 12))
    assert width(few) > 2 * width(many)


def test_one_process_knows_nothing_of_others() -> None:
    estimate = ratio(times(1)[:1], times(2)[:1])
    assert (estimate.low, estimate.high) == (0, math.inf)
    alone = percentile(times(1)[:1], 50, confidence=0.95)
    assert (alone.low, alone.high) == (0, math.inf)
    with pytest.raises(EvidenceError, match="race in two or more"):
        aa_ratio(times(1)[:1], 50, inference=INFERENCE)


@pytest.mark.parametrize(("percent", "fewest"), [(50, 6), (95, 72), (99, 368)])
def test_an_end_needs_a_query_beyond_the_percentile(percent: float, fewest: int) -> None:
    """The share of samples that lie wholly below it must be at most a fortieth."""
    assert fewest_for(percent, 0.95) == fewest
    assert (percent / 100) ** fewest <= 0.025 < (percent / 100) ** (fewest - 1)
    enough, few = times(1, fewest), times(1, fewest - 1)
    assert percentile(enough, percent, confidence=0.95).high < math.inf
    assert percentile(few, percent, confidence=0.95).high == math.inf
    assert (percentile(few, percent, confidence=0.95).low > 0) is (percent > 50)
    assert ratio(few, few, percent).high == math.inf


def test_a_half_of_the_processes_that_is_slower_is_seen() -> None:
    elapsed = times(1)
    elapsed[1::2] = elapsed[1::2] * 1.5
    estimate = aa_ratio(elapsed, 95, inference=INFERENCE)
    assert estimate.low < 1.5 < estimate.high
    assert estimate.low > 1.3
    steady = aa_ratio(times(1), 95, inference=INFERENCE)
    assert steady.low < 1 < steady.high


def test_a_sum_of_large_times_does_not_wrap() -> None:
    control = np.full((4, 4), 2**62, dtype=np.int64)
    assert ratio(control, control, None).value == pytest.approx(1)


def test_a_time_that_wrapped_is_refused() -> None:
    control = times(1)
    candidate = control.copy()
    candidate[3, 1] = -5
    with pytest.raises(EvidenceError, match="not above 0"):
        ratio(candidate, control)


def test_times_of_two_races_are_refused() -> None:
    with pytest.raises(EvidenceError, match="not of one race"):
        ratio(times(1), times(1, 100))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ratio", "percentile"])
@pytest.mark.parametrize("apart", [0.0, 0.1])
def test_intervals_hold_as_often_as_they_say(kind: str, apart: float) -> None:
    """300 samples of three processes; 5 % may miss, and 8.5 % is four standard errors more."""
    missed = covered(kind, 50.0, queries=80, processes=3, apart=apart, trials=300)
    assert sum(missed) <= 0.085
