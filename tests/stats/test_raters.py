"""Agreement of two assessors, and of several."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from harness.stats.raters import Weights, alpha, fleiss, kappa


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


ROWS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)
"""Four observers of twelve units (Krippendorff, Computing Krippendorff's Alpha, 2011, part C)."""
FLEISS = (
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
)  # fmt: skip
"""Ten subjects, fourteen raters, five categories: kappa 0.210."""


def test_alpha_is_that_of_the_published_example() -> None:
    units = [[g for g in column if g is not None] for column in zip(*ROWS, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    found = alpha(units, np.arange(len(units)), confidence=0.95)
    assert found is not None
    assert found.value == pytest.approx(0.815, abs=5e-4)
    assert found.low < found.value < found.high
    assert found.n == 11


def test_fleiss_is_that_of_the_published_example() -> None:
    units = [[grade for grade, many in enumerate(row) for _ in range(many)] for row in FLEISS]
    found = fleiss(units, np.arange(10), confidence=0.95)
    assert found is not None
    assert found.value == pytest.approx(0.210, abs=5e-4)


def test_two_grades_and_two_assessors_agree_as_kappa_says_nearly() -> None:
    """With many units, and with habits alike, all three measure the same."""
    rng = np.random.default_rng(4)
    one = rng.integers(0, 2, 4_000)
    other = np.where(rng.random(4_000) < 0.8, one, 1 - one)
    units = np.column_stack([one, other]).tolist()
    clusters = np.arange(4_000) // 10
    plain = kappa(one, other, clusters, confidence=0.95)
    for by in (alpha, fleiss):
        found = by(units, clusters, confidence=0.95)
        assert found is not None
        assert found.value == pytest.approx(plain.value, abs=1e-3)
        assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=2e-3)


def test_who_gives_one_grade_tells_nothing_apart() -> None:
    units = [[1, 1]] * 5
    assert alpha(units, np.arange(5), confidence=0.95) is None
    assert fleiss(units, np.arange(5), confidence=0.95) is None
    with pytest.raises(ValueError, match="needs one number"):
        fleiss([[1, 1], [1, 1, 1]], np.arange(2), confidence=0.95)
