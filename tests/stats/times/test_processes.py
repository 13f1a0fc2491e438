"""Percentiles and ratios over several processes: what they show, and how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.simulate_times import AT_BOUND, EQUAL, fast_enough, missed
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats import times as stats_times
from harness.stats.times import aa_ratio, fewest_for, percentile

Times = NDArray[np.int64]


def times(
    seed: int, queries: int = 200, *, factor: float = 1.0, apart: float = 0.0, count: int = 4
) -> Times:
    """Draw times of ``count`` processes that are ``apart`` in the spread of their logarithms."""
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(99).lognormal(13, 0.5, queries)
    level = np.exp(apart * rng.normal(size=(count, 1)))
    noise = rng.lognormal(0, 0.05, (count, queries))
    return np.asarray(factor * hard * level * noise, dtype=np.int64)


def ratio(candidate: Times, control: Times, percent: float = 50.0) -> Estimate:
    return stats_times.ratio(candidate, control, percent, confidence=0.95)


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
    for percent in (50.0, 95.0):
        estimate = ratio(3 * control, control, percent)
        assert estimate.value == pytest.approx(3)
        assert estimate.low < 3 < estimate.high
        assert estimate.n == 200


def test_a_ratio_shares_the_level_between_its_arms() -> None:
    """Of 20 queries the 5th and the 16th hold the median at 98.8 %: each arm errs in 1.25 %."""
    elapsed = np.tile(np.arange(1, 21, dtype=np.int64), (3, 1))
    found = ratio(elapsed, elapsed)
    assert (found.low, found.high) == pytest.approx((5 / 16, 16 / 5))


def test_a_query_counts_once_however_many_processes_timed_it() -> None:
    """The last of 20 queries by each of four processes, and not the 20th of 80 calls."""
    calls = np.arange(1, 81, dtype=np.int64).reshape(20, 4).T
    found = percentile(calls, 50, confidence=0.95)
    assert found.low <= 21
    assert found.high >= 60


def test_a_slowdown_is_of_each_query_against_its_own_time() -> None:
    control = times(1)
    shuffled = 3 * control[:, ::-1]
    found = stats_times.slowdown(3 * control, control, 95, confidence=0.95)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))
    assert stats_times.slowdown(shuffled, control, 95, confidence=0.95).value > 6


def test_the_mean_is_of_these_queries_alone() -> None:
    control = times(1)
    rare = control.copy()
    rare[:, 0] *= 1_000
    found = stats_times.mean_ratio(rare, control, confidence=0.95)
    assert found.value > 3
    assert width(found) < 0.2


def test_processes_that_differ_widen_every_interval() -> None:
    """Queries alone would say that 200 are many."""
    steady, moving = times(1), times(1, apart=0.1)
    control = times(2)
    assert width(ratio(moving, control)) > 1.2 * width(ratio(steady, control))
    narrow, wide = (percentile(each, 50, confidence=0.95) for each in (steady, moving))
    assert width(wide) > 1.2 * width(narrow)


def test_more_processes_narrow_it() -> None:
    few, many = (
        stats_times.mean_ratio(times(1, apart=0.1, count=n), times(2, count=n), confidence=0.95)
        for n in (3, 12)
    )
    assert width(few) > 1.4 * width(many)


def test_one_process_knows_nothing_of_others() -> None:
    estimate = ratio(times(1)[:1], times(2)[:1])
    assert (estimate.low, estimate.high) == (0, math.inf)
    alone = percentile(times(1)[:1], 50, confidence=0.95)
    assert (alone.low, alone.high) == (0, math.inf)
    with pytest.raises(EvidenceError, match="race in two or more"):
        aa_ratio(times(1)[:1], 50)


@pytest.mark.parametrize(
    ("percent", "fewest", "of_two"), [(50, 6, 7), (95, 72, 86), (99, 368, 437)]
)
def test_an_end_needs_a_query_beyond_the_percentile(
    percent: float, fewest: int, of_two: int
) -> None:
    """The share of samples that lie wholly below it must be at most a fortieth."""
    assert fewest_for(percent, 0.95) == fewest
    assert fewest_for(percent, 0.95, arms=2) == of_two
    assert (percent / 100) ** fewest <= 0.025 < (percent / 100) ** (fewest - 1)
    enough, few = times(1, fewest), times(1, fewest - 1)
    assert percentile(enough, percent, confidence=0.95).high < math.inf
    assert percentile(few, percent, confidence=0.95).high == math.inf
    assert (percentile(few, percent, confidence=0.95).low > 0) is (percent > 50)
    for queries, ends in ((of_two, True), (of_two - 1, False)):
        both = times(1, queries)
        assert (ratio(both, both, percent).high < math.inf) is ends


def test_a_process_that_is_slower_is_seen() -> None:
    elapsed = times(1)
    elapsed[2] = elapsed[2] * 1.5
    assert aa_ratio(elapsed, 95).high == pytest.approx(1.5, rel=0.1)
    assert 1 <= aa_ratio(times(1), 95).high < 1.2


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
    assert missed(kind, 50.0, queries=80, apart=apart, trials=300) <= 0.085


@pytest.mark.slow
@pytest.mark.parametrize("family", AT_BOUND)
def test_slow_queries_pass_as_rarely_as_promised(family: str) -> None:
    """200 races at the bound; 2.5 % may pass, and 6.5 % is four standard errors more."""
    draw, asked = AT_BOUND[family]
    assert fast_enough(draw, asked, max(100, asked.fewest()), trials=200) <= 0.065


@pytest.mark.parametrize("gate", EQUAL)
def test_equal_candidates_pass(gate: str) -> None:
    draw, asked = EQUAL[gate]
    assert fast_enough(draw, asked, 400, trials=20) >= 0.8
