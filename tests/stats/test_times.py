"""Percentiles of times, of processes, caches and series."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.simulate_times import AT_BOUND, EQUAL, fast_enough, missed
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats import times as stats_times
from harness.stats.selection import Ints
from harness.stats.times import aa_ratio, fewest_for, percentile, shared_ratio, text_ratio


def started(seed: int, queries: int = 200, *, apart: float = 0.0) -> Ints:
    """Draw times of four processes that are ``apart`` in the spread of their logarithms."""
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(99).lognormal(13, 0.5, queries)
    level = np.exp(apart * rng.normal(size=(4, 1)))
    noise = rng.lognormal(0, 0.05, (4, queries))
    return np.asarray(hard * level * noise, dtype=np.int64)


def ratio(candidate: Ints, control: Ints, percent: float = 50.0) -> Estimate:
    return stats_times.ratio(candidate, control, percent, confidence=0.95)


def width(estimate: Estimate) -> float:
    return math.log(estimate.high / estimate.low)


TWENTY = np.tile(np.arange(1, 21, dtype=np.int64), (3, 1))


def test_equal_processes_leave_the_interval_of_the_order_statistics() -> None:
    """Of 20 queries the 6th and the 15th hold the median at 95.9 %, as textbooks print it."""
    for found in (
        percentile(TWENTY, 50, confidence=0.95),
        stats_times.order_interval(TWENTY[:1].T, 50, confidence=0.95),
    ):
        assert found is not None
        assert (found.low, found.high) == pytest.approx((6, 15))
        assert found.n == 20


def test_percentile_is_over_all_times() -> None:
    elapsed = np.array([[10, 20], [30, 40]], dtype=np.int64)
    for percent, value in ((50, 25.0), (100, 40.0)):
        assert percentile(elapsed, percent, confidence=0.95).value == value


def test_too_few_times_have_no_interval_for_a_far_percentile() -> None:
    assert stats_times.order_interval(started(1, 300)[:1].T, 99.9, confidence=0.95) is None
    assert stats_times.order_interval(started(1, 5)[:1].T, 50, confidence=0.95) is None


@pytest.mark.parametrize("broken", [0, -5])
def test_a_time_that_wrapped_has_no_quantile(broken: int) -> None:
    elapsed = started(1, 10).T
    elapsed[3, 1] = broken
    with pytest.raises(EvidenceError, match="not above 0"):
        stats_times.order_interval(elapsed, 50, confidence=0.95)


def test_a_ratio_finds_a_planted_factor() -> None:
    control = started(1)
    for percent in (50.0, 95.0):
        estimate = ratio(3 * control, control, percent)
        assert estimate.value == pytest.approx(3)
        assert estimate.low < 3 < estimate.high
        assert estimate.n == 200


def test_a_ratio_shares_the_level_between_its_arms() -> None:
    """Of 20 queries the 5th and the 16th hold the median at 98.8 %: each arm errs in 1.25 %."""
    found = ratio(TWENTY, TWENTY)
    assert (found.low, found.high) == pytest.approx((5 / 16, 16 / 5))


def test_a_query_counts_once_however_many_processes_timed_it() -> None:
    """The last of 20 queries by each of four processes, and not the 20th of 80 calls."""
    calls = np.arange(1, 81, dtype=np.int64).reshape(20, 4).T
    found = percentile(calls, 50, confidence=0.95)
    assert found.low <= 21
    assert found.high >= 60


def test_a_slowdown_is_of_each_query_against_its_own_time() -> None:
    control = started(1)
    shuffled = 3 * control[:, ::-1]
    found = stats_times.slowdown(3 * control, control, 95, confidence=0.95)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))
    assert stats_times.slowdown(shuffled, control, 95, confidence=0.95).value > 6


def test_the_mean_is_of_these_queries_alone() -> None:
    control = started(1)
    rare = control.copy()
    rare[:, 0] *= 1_000
    found = stats_times.mean_ratio(rare, control, confidence=0.95)
    assert found.value > 3
    assert width(found) < 0.2
    steady = np.array([[100, 300], [100, 300]])
    double = stats_times.mean_ratio(2 * steady, steady, confidence=0.95)
    assert (double.low, double.value, double.high) == pytest.approx((2, 2, 2))
    apart = stats_times.mean_ratio(np.array([[200, 600], [400, 1_200]]), steady, confidence=0.95)
    reach = stats.t.ppf(0.975, 1) * np.log([2, 4]).std(ddof=1) / np.sqrt(2)
    assert np.log([apart.low, apart.high]) == pytest.approx(np.log(3) + reach * np.array([-1, 1]))


def test_processes_that_differ_widen_every_interval() -> None:
    """Queries alone would say that 200 are many."""
    steady, moving = started(1), started(1, apart=0.1)
    control = started(2)
    assert width(ratio(moving, control)) > 1.2 * width(ratio(steady, control))
    narrow, wide = (percentile(each, 50, confidence=0.95) for each in (steady, moving))
    assert width(wide) > 1.2 * width(narrow)


def test_one_process_knows_nothing_of_others() -> None:
    estimate = ratio(started(1)[:1], started(2)[:1])
    assert (estimate.low, estimate.high) == (0, math.inf)
    alone = percentile(started(1)[:1], 50, confidence=0.95)
    assert (alone.low, alone.high) == (0, math.inf)
    with pytest.raises(EvidenceError, match="race in two or more"):
        aa_ratio(started(1)[:1], 50)


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
    enough, few = started(1, fewest), started(1, fewest - 1)
    assert percentile(enough, percent, confidence=0.95).high < math.inf
    assert percentile(few, percent, confidence=0.95).high == math.inf
    assert (percentile(few, percent, confidence=0.95).low > 0) is (percent > 50)
    for queries, ends in ((of_two, True), (of_two - 1, False)):
        both = started(1, queries)
        assert (ratio(both, both, percent).high < math.inf) is ends


def test_a_process_that_is_slower_is_seen() -> None:
    elapsed = started(1)
    elapsed[2] = elapsed[2] * 1.5
    assert aa_ratio(elapsed, 95).high == pytest.approx(1.5, rel=0.1)
    assert 1 <= aa_ratio(started(1), 95).high < 1.2


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


TURNS = (np.arange(60) + np.arange(4)[:, None]) % 3


def test_the_ratio_of_two_texts_has_students_interval() -> None:
    first, again = np.array([[100, 200, 400]]), np.array([[50, 150, 400]])
    logs = np.log([0.5, 0.75, 1.0])
    found = text_ratio(again, first, confidence=0.9)
    assert found is not None
    ends = stats.t.interval(0.9, 2, loc=logs.mean(), scale=stats.sem(logs))
    assert np.log([found.value, found.low, found.high]) == pytest.approx([logs.mean(), *ends])


def test_without_a_cache_a_text_takes_as_long_again() -> None:
    estimate = text_ratio(started(2, 60)[:, :20], started(1, 60), confidence=0.95)
    assert estimate is not None
    assert estimate.low < 1 < estimate.high
    assert estimate.n == 20
    apart = shared_ratio(started(1, 60), TURNS, confidence=0.95)
    assert apart is not None
    assert apart.low < 1 < apart.high
    assert apart.n == 60


def test_a_memo_is_seen_text_by_text() -> None:
    """Each text is compared with itself: the first twenty are ten times as hard here."""
    first = started(1, 60)
    first[:, :20] *= 10
    estimate = text_ratio(first[:, :20] // 100, first, confidence=0.95)
    assert estimate is not None
    assert estimate.value == pytest.approx(0.01, rel=0.01)


def test_a_cache_that_arms_share_shows_in_who_came_second() -> None:
    first = np.where(TURNS > 0, started(1, 60) // 1_000, started(1, 60))
    estimate = shared_ratio(first, TURNS, confidence=0.95)
    assert estimate is not None
    assert estimate.high < 0.002


@pytest.mark.parametrize("of", [slice(None), slice(1, None)])
def test_what_was_kept_is_seen_in_every_process(of: slice) -> None:
    """Each asks variants of its own; the first may be the one that asks at the depth of a memo."""
    first = started(1, 60)
    count = len(first[of])
    unseen = first[:, :20].copy()
    unseen[of] = unseen[of] * round(50 ** (len(first) / count))
    estimate = text_ratio(first, unseen, confidence=0.95)
    assert estimate is not None
    assert estimate.value == pytest.approx(0.02, rel=0.01)
    assert estimate.n == 20
    honest = text_ratio(first, started(2, 60)[:, :20], confidence=0.95)
    assert honest is not None
    assert honest.low < 1 < honest.high
    assert text_ratio(first, unseen[:, :0], confidence=0.95) is None
    assert text_ratio(first, unseen[:, :1], confidence=0.95) is None
