"""Percentiles of times of one process."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats import times as stats_times


def times(seed: int, shape: tuple[int, int], factor: float = 1.0) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    per_query = rng.lognormal(13, 0.5, (shape[0], 1))
    return (factor * per_query * rng.lognormal(0, 0.1, shape)).astype(np.int64)


def test_percentile_is_over_all_times() -> None:
    elapsed = np.array([[10, 20], [30, 40]], dtype=np.int64)
    assert stats_times.percentile_ns(elapsed, 50) == 25.0
    assert stats_times.percentile_ns(elapsed, 100) == 40.0


def test_order_interval_matches_the_binomial_table() -> None:
    # n = 20, median, 95 %: ranks 6 and 15 (coverage 0.9586), as printed in textbooks
    elapsed = np.arange(1, 21, dtype=np.int64).reshape(20, 1)
    found = stats_times.order_interval(elapsed, 50, confidence=0.95)
    assert found is not None
    assert (found.low, found.high, found.n) == (6.0, 15.0, 20)


def test_order_interval_covers_the_true_percentile() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        found = stats_times.order_interval(
            rng.integers(1, 1_000_001, (200, 1)), 95, confidence=0.95
        )
        assert found is not None
        inside += found.low <= 950_000 <= found.high
    assert 372 <= inside <= 398


def test_too_few_times_have_no_interval_for_a_far_percentile() -> None:
    assert stats_times.order_interval(times(1, (300, 1)), 99.9, confidence=0.95) is None
    assert stats_times.order_interval(times(1, (5, 1)), 50, confidence=0.95) is None


@pytest.mark.parametrize("broken", [0, -5])
def test_a_time_that_wrapped_has_no_quantile(broken: int) -> None:
    elapsed = times(1, (10, 2))
    elapsed[3, 1] = broken
    with pytest.raises(EvidenceError, match="not above 0"):
        stats_times.order_interval(elapsed, 50, confidence=0.95)


def test_no_times_are_refused() -> None:
    with pytest.raises(EvidenceError, match="no times"):
        stats_times.percentile_ns(np.empty((0, 3), dtype=np.int64), 50)
