"""Intervals that hold together while queries are added."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.bounded import Span
from harness.stats.sequential import evalues_each, p_above, times_needed

UNIT, DIFFERENCES = Span(0.0, 1.0), Span(-1.0, 1.0)
SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125)
VALUES = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=2, max_size=60)


def interval(values: list[float], span: Span = UNIT, clusters: list[int] | None = None) -> Estimate:
    column = np.array(values).reshape(-1, 1)
    codes = None if clusters is None else np.array(clusters)
    return evalues_each(column, span=span, confidence=0.95, clusters=codes)[0]


def capital(values: list[float], mean: float) -> float:
    """Let six gamblers bet a sixth of 1 each, on one query after the other."""
    return sum(
        math.prod(1 - share + share * value / mean for value in values) for share in SHARES
    ) / len(SHARES)


@given(VALUES)
def test_an_end_is_where_the_gamblers_get_rich(values: list[float]) -> None:
    estimate = interval(values)
    if estimate.low > 1e-6:
        assert capital(values, estimate.low * 0.999) >= 40
        assert estimate.low >= np.mean(values) - 1e-9 or capital(values, estimate.low * 1.001) < 40
    turned = [1 - value for value in values]
    if estimate.high < 1 - 1e-6:
        assert capital(turned, (1 - estimate.high) * 0.999) >= 40


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_the_queries_changes_nothing(values: list[float], dice: random.Random) -> None:
    shuffled = list(values)
    dice.shuffle(shuffled)
    one, other = interval(values), interval(shuffled)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9)


@given(VALUES)
def test_the_mean_lies_within(values: list[float]) -> None:
    estimate = interval(values)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.value == pytest.approx(np.mean(values))
    assert estimate.n == len(values)


def test_another_span_is_the_same_stretched() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 200)
    plain, wide = interval(values.tolist()), interval((2 * values - 1).tolist(), DIFFERENCES)
    assert (wide.low, wide.high) == pytest.approx((2 * plain.low - 1, 2 * plain.high - 1))


def test_no_difference_at_all_leaves_room_for_what_was_not_seen() -> None:
    assert interval([0.0] * 260, DIFFERENCES).low < -0.02 < interval([0.0] * 280, DIFFERENCES).low


def test_a_cluster_counts_once() -> None:
    values = np.random.default_rng(2).uniform(-1, 1, 60).tolist()
    copies = [value for value in values for _ in range(4)]
    codes = [at for at in range(60) for _ in range(4)]
    one, four = interval(values, DIFFERENCES), interval(copies, DIFFERENCES, codes)
    assert (four.low, four.high) == pytest.approx((one.low, one.high))
    assert four.n == 240


def test_a_large_bad_cluster_does_not_hide_behind_many_small_ones() -> None:
    """The mean over clusters loses little; the mean over queries is the one that is shown."""
    values, codes = [0.0] * 400 + [-1.0] * 40, [*range(400), *[400] * 40]
    estimate = interval(values, DIFFERENCES, codes)
    assert estimate.value == pytest.approx(-40 / 440)
    assert estimate.low <= estimate.value


def test_columns_do_not_see_each_other() -> None:
    values = np.random.default_rng(3).uniform(-1, 1, (50, 7))
    together = evalues_each(values, span=DIFFERENCES, confidence=0.95, clusters=None)
    for at, found in enumerate(together):
        assert found == interval(values[:, at].tolist(), DIFFERENCES)


def test_the_p_value_is_below_the_level_where_the_low_end_is_above_the_bound() -> None:
    values = np.random.default_rng(4).uniform(-0.2, 0.3, 150)
    low = interval(values.tolist(), DIFFERENCES).low
    for bound, rich in ((low - 1e-6, True), (low + 1e-6, False)):
        found = p_above(values, bound, span=DIFFERENCES, clusters=None)
        assert (found <= 0.025) is rich
    assert p_above(values, 0.5, span=DIFFERENCES, clusters=None) == 1


def test_as_many_queries_as_are_needed_are_enough_and_fewer_are_not() -> None:
    values = np.random.default_rng(5).choice([-0.3, 0.0, 0.3], 100, p=[0.1, 0.8, 0.1])
    for bound in (-0.1, 0.1):
        times = times_needed(values, bound, span=DIFFERENCES, confidence=0.95, clusters=None)
        assert times is not None
        above = math.ceil(times)
        enough = interval(values.tolist() * above, DIFFERENCES)
        assert enough.low > bound if bound < 0 else enough.high < bound
    same = np.array([0.1, -0.1] * 10)
    assert times_needed(same, 0.0, span=DIFFERENCES, confidence=0.95, clusters=None) is None


@pytest.mark.parametrize(
    ("values", "says"),
    [([0.5], "1 independent query has no spread"), ([0.5, 1.5], "are not all within 0 and 1")],
)
def test_what_has_no_interval_is_refused(values: list[float], says: str) -> None:
    with pytest.raises(EvidenceError, match=says):
        interval(values)


def test_large_clusters_that_lose_count_by_their_queries() -> None:
    """Half of the rare clusters of eight lose everything: the mean over queries is -0.02."""
    rng, passed, trials = np.random.default_rng(6), 0, 100
    for _ in range(trials):
        large = rng.random(1_000) < 0.04 / (8 * 0.96 + 0.04)
        codes = np.repeat(np.arange(1_000), np.where(large, 8, 1))[:1_000]
        values = np.where(large & (rng.random(1_000) < 0.5), -1.0, 0.0)[codes].reshape(-1, 1)
        (one,) = evalues_each(values, span=DIFFERENCES, confidence=0.95, clusters=codes)
        passed += one.low > -0.02
    assert passed <= 0.08 * trials


def test_clusters_that_may_come_are_as_wide_as_clusters_that_were_seen() -> None:
    values = np.zeros((800, 1))
    alone, stated, seen = (
        evalues_each(values, span=DIFFERENCES, confidence=0.95, clusters=codes, largest=largest)[0]
        for codes, largest in ((None, 0.0), (None, 0.005), (np.repeat(np.arange(200), 4), 0.0))
    )
    assert alone.low > stated.low
    assert stated.low == pytest.approx(seen.low, rel=0.05)
