"""Several estimates, each drawn to the mean of all."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.scores import Estimate
from harness.stats.pooling import pooled


def estimates(values: list[float], deviations: list[float]) -> list[Estimate]:
    return [
        Estimate(value, value - 1.959964 * sure, value + 1.959964 * sure, 50)
        for value, sure in zip(values, deviations, strict=True)
    ]


def test_estimates_that_differ_by_chance_alone_become_one() -> None:
    found = pooled(estimates([0.01, -0.01, 0.0, 0.004], [0.05] * 4), confidence=0.95)
    assert found == pytest.approx([0.001] * 4)


def test_a_sure_estimate_stays_where_it_is() -> None:
    found = pooled(estimates([-0.5, 0.0, 0.5], [0.001] * 3), confidence=0.95)
    assert found == pytest.approx([-0.5, 0.0, 0.5], abs=1e-4)


def test_the_less_sure_moves_further() -> None:
    found = pooled(estimates([-0.3, -0.3, 0.3, 0.3], [0.02, 0.3, 0.02, 0.3]), confidence=0.95)
    assert -0.3 < found[0] < found[1] < 0 < found[3] < found[2] < 0.3


def test_one_estimate_or_one_without_doubt_is_left_alone() -> None:
    assert pooled(estimates([0.4], [0.1]), confidence=0.95) == [0.4]
    assert list(pooled(estimates([0.4, 0.1], [0.0, 0.1]), confidence=0.95)) == [0.4, 0.1]


def test_the_variance_between_truths_is_that_of_paule_and_mandel() -> None:
    """Their condition: the weighted squares around the weighted mean are the degrees of freedom."""
    values, deviations = np.array([-0.2, 0.1, 0.3, 0.0]), np.array([0.05, 0.1, 0.02, 0.08])
    found = pooled(estimates(values.tolist(), deviations.tolist()), confidence=0.95)
    kept = (found[0] - found[2]) and (found - values)
    between = _solved(values, deviations)
    weights = 1 / (deviations**2 + between)
    mean = (weights * values).sum() / weights.sum()
    assert kept == pytest.approx((mean - values) * deviations**2 * weights, abs=1e-6)


def _solved(values: np.ndarray, deviations: np.ndarray) -> float:
    """By bisection on the condition itself."""
    low, high = 0.0, 1.0
    for _ in range(80):
        between = (low + high) / 2
        weights = 1 / (deviations**2 + between)
        mean = (weights * values).sum() / weights.sum()
        above = (weights * (values - mean) ** 2).sum() > len(values) - 1
        low, high = (between, high) if above else (low, between)
    return (low + high) / 2


def test_pooled_estimates_are_nearer_to_the_truth() -> None:
    rng = np.random.default_rng(11)
    alone = together = 0.0
    for _ in range(200):
        truth = rng.normal(-0.01, 0.03, 12)
        seen = rng.normal(truth, 0.05)
        found = pooled(estimates(seen.tolist(), [0.05] * 12), confidence=0.95)
        alone += float(((seen - truth) ** 2).sum())
        together += float(((found - truth) ** 2).sum())
    assert together < 0.6 * alone
