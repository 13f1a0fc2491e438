"""Percentiles of times that depend on those before them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import lfilter
from scipy.special import ndtri

from harness.core.errors import EvidenceError
from harness.stats.times import effective_sample_size, order_interval, series_interval


def times(series: int, count: int, clinging: float, seed: int) -> NDArray[np.int64]:
    """Lognormal times around 1 ms whose logarithms are AR(1), shape (series, count)."""
    fresh = np.random.default_rng(seed).normal(size=(series, count + 200))
    level = lfilter([math.sqrt(1 - clinging**2)], [1, -clinging], fresh, axis=1)[:, 200:]
    return (1e6 * np.exp(0.3 * level)).astype(np.int64)


@pytest.mark.parametrize(("percent", "clinging"), [(50, 0.0), (50, 0.6), (95, 0.3)])
def test_holds_the_true_percentile_as_often_as_it_says(percent: float, clinging: float) -> None:
    truth = 1e6 * math.exp(0.3 * float(ndtri(percent / 100)))
    found = [
        series_interval(row, percent, confidence=0.95) for row in times(400, 1_000, clinging, 3)
    ]
    held = np.mean([one is not None and one.low <= truth <= one.high for one in found])
    assert 0.95 - 3 * 0.011 <= held <= 0.95 + 3 * 0.011


def test_taking_them_for_independent_would_be_too_sure() -> None:
    truth, held = 1e6, 0
    for row in times(300, 1_000, 0.8, 4):
        estimate = order_interval(row.reshape(-1, 1), 50, confidence=0.95)
        assert estimate is not None
        held += estimate.low <= truth <= estimate.high
    assert held / 300 < 0.7


def test_a_series_that_clings_is_worth_less() -> None:
    worth = [
        np.mean([effective_sample_size(row <= 1_000_000) for row in times(100, 2_000, clinging, 5)])
        for clinging in (0.0, 0.5, 0.9)
    ]
    assert worth[0] > 1_600
    assert worth[1] == pytest.approx(2_000 / 2.03, rel=0.25)
    assert worth[2] < 300


def test_independent_times_pay_for_the_blocks_alone() -> None:
    ratios, worth = [], []
    for row in times(200, 2_000, 0.0, 8):
        plain = order_interval(row.reshape(-1, 1), 50, confidence=0.95)
        estimate = series_interval(row, 50, confidence=0.95)
        assert plain is not None
        assert estimate is not None
        ratios.append((estimate.high - estimate.low) / (plain.high - plain.low))
        worth.append(effective_sample_size(row <= estimate.value))
    wider = float(stats.t.ppf(0.975, 13.5)) / 1.96
    assert np.mean(ratios) == pytest.approx(wider, abs=0.06)
    assert np.median(worth) == pytest.approx(2_000, rel=0.15)


def test_more_confidence_is_wider_and_brackets_the_value() -> None:
    (row,) = times(1, 2_000, 0.5, 6)
    narrow = series_interval(row, 90, confidence=0.8)
    wide = series_interval(row, 90, confidence=0.99)
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert wide.n == 2_000


def test_equal_times_have_no_width() -> None:
    estimate = series_interval(np.full(500, 7, dtype=np.int64), 50, confidence=0.95)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (7, 7, 7)


def test_too_few_times_or_too_few_worth_have_none() -> None:
    (row,) = times(1, 500, 0.0, 7)
    assert series_interval(row, 99, confidence=0.95) is None
    (sticky,) = times(1, 500, 0.99, 7)
    assert series_interval(sticky, 95, confidence=0.95) is None
    assert series_interval(row, 95, confidence=0.95) is not None


def test_times_without_an_order_are_refused() -> None:
    with pytest.raises(EvidenceError, match="one series"):
        series_interval(np.ones((5, 2), dtype=np.int64), 50, confidence=0.95)
    with pytest.raises(EvidenceError, match="no times"):
        series_interval(np.empty(0, dtype=np.int64), 50, confidence=0.95)
