"""How many queries settle a question."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.stats.power import detectable, queries_needed


def spread(
    mean: float, deviation: float, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.random.default_rng(0).normal(size=count)
    values = (values - values.mean()) / values.std(ddof=1)
    return np.asarray(mean + deviation * values, dtype=np.float64)


def test_textbook_size() -> None:
    # (1.960 + 0.842)^2 * 0.2^2 / 0.02^2 = 784.9
    found = queries_needed(
        spread(0.0, 0.2, 50), bound=-0.02, confidence=0.95, power=0.8, clusters=None
    )
    assert found == 785


def test_so_many_queries_have_the_power_asked_for() -> None:
    seen = spread(0.01, 0.1, 40)
    needed = queries_needed(seen, bound=-0.02, confidence=0.95, power=0.8, clusters=None)
    assert needed is not None
    draws = np.random.default_rng(3).normal(0.01, 0.1, (4_000, needed))
    low = draws.mean(axis=1) - 1.96 * draws.std(axis=1, ddof=1) / np.sqrt(needed)
    assert (low > -0.02).mean() == pytest.approx(0.8, abs=0.04)


def test_a_mean_at_the_bound_is_never_settled() -> None:
    seen = spread(-0.02, 0.1, 40)
    assert queries_needed(seen, bound=-0.02, confidence=0.95, power=0.8, clusters=None) is None


def test_without_spread_the_fewest_are_enough() -> None:
    assert queries_needed(np.zeros(5), bound=-1, confidence=0.95, power=0.8, clusters=None) == 2


def test_queries_of_one_intent_count_as_one() -> None:
    seen = spread(0.0, 0.2, 50)
    copies, intents = np.repeat(seen, 3), np.repeat(np.arange(50), 3)
    found = queries_needed(copies, bound=-0.02, confidence=0.95, power=0.8, clusters=intents)
    assert found == pytest.approx(3 * 785, abs=3)


def test_detectable_is_the_inverse_of_needed() -> None:
    seen = spread(0.0, 0.3, 100)
    distance = detectable(seen, confidence=0.95, power=0.8, clusters=None)
    needed = queries_needed(
        seen, bound=-distance * 1.0001, confidence=0.95, power=0.8, clusters=None
    )
    assert needed == 100


def test_one_query_has_no_spread() -> None:
    with pytest.raises(EvidenceError, match="no spread"):
        detectable(np.array([0.1]), confidence=0.95, power=0.8, clusters=None)
