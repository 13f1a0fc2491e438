"""Weighted kappa by hand, and its interval."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from harness.stats.raters import Weights, kappa


@pytest.mark.parametrize(
    ("weights", "value"), [("none", 1 / 3), ("linear", 1 / 4), ("quadratic", 1 / 6)]
)
def test_a_disagreement_weighs_as_far_as_it_is_apart(weights: Weights, value: float) -> None:
    """Two of four agree; 2 for 1 and 0 for 2 weigh 1 + 1, 1 + 2, 1 + 4; by chance 3, 4, 6."""
    found = kappa(
        np.array([0, 1, 2, 2]), np.array([0, 1, 1, 0]), np.arange(4),
        confidence=0.95, weights=weights,
    )  # fmt: skip
    assert found.value == pytest.approx(value)
    assert found.n == 4


@pytest.mark.parametrize("weights", get_args(Weights))
def test_two_who_agree_have_one_and_two_grades_weigh_alike(weights: Weights) -> None:
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 2, (2, 200))
    clusters = np.arange(200) // 4
    plain = kappa(one, other, clusters, confidence=0.95)
    assert kappa(one, other, clusters, confidence=0.95, weights=weights) == plain
    same = kappa(one, one, clusters, confidence=0.95, weights=weights)
    assert (same.value, same.low, same.high) == pytest.approx((1, 1, 1))


def test_judgements_of_one_query_are_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(2)
    one = rng.integers(0, 3, 60)
    other = np.where(rng.random(60) < 0.7, one, 2 - one)
    many = np.tile(one, 10), np.tile(other, 10)
    apart, together = (
        kappa(many[0], many[1], clusters, confidence=0.95, weights="linear")
        for clusters in (np.arange(600), np.tile(np.arange(60), 10))
    )
    assert apart.value == together.value
    assert together.high - together.low > 2.5 * (apart.high - apart.low)
