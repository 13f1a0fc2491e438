"""Fusion as written and by rank: worked examples, and what holds for any scores at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.stacks.documents.ranking import (
    Leg,
    as_specified,
    blend_as_specified,
    by_rank,
    clean,
    ranks,
)

ANY = st.floats(allow_nan=True, allow_infinity=True)
PAIRS = st.lists(st.tuples(ANY, ANY), max_size=20)


def arrays(pairs: list[tuple[float, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


def test_the_formula_of_section_4_as_it_is_written() -> None:
    dense, sparse = np.array([0.5, 1.0, -0.2, 0.0]), np.array([2.0, 0.0, 4.0, -1.0])
    scores = as_specified([Leg(dense, 1.0), Leg(sparse, 0.8)], 4)
    expected = [1 / (60 + 2) + 0.8 / (60 + 0.5), 1 / 61, 0.8 / (60 + 0.25), 0.0]
    assert scores.tolist() == pytest.approx(expected, abs=1e-12)


@given(st.floats(0, 1), st.floats(0, 1))
def test_as_written_no_score_passes_three_hundredths_where_both_are_cosines(
    dense: float, sparse: float
) -> None:
    legs = [Leg(np.array([dense]), 1.0), Leg(np.array([sparse]), 0.8)]
    assert as_specified(legs, 1)[0] <= 1 / 61 + 0.8 / 61 + 1e-12


def test_by_rank_first_everywhere_is_one_and_equal_scores_share_a_rank() -> None:
    found = by_rank([Leg(np.array([3.0, 2.0, 2.0]), 1.0), Leg(np.array([9.0, 1.0, 5.0]), 0.8)], 3)
    assert found[0] == 1.0
    second, third = 1 / 62 + 0.8 / 63, 1 / 62 + 0.8 / 62
    assert found[1:].tolist() == pytest.approx([second / (1.8 / 61), third / (1.8 / 61)], abs=1e-12)
    assert ranks(np.array([2.0, 5.0, 5.0, math.nan])).tolist() == [3.0, 1.0, 1.0, 4.0]


def test_the_blend_of_section_5_as_it_is_written() -> None:
    scores = blend_as_specified(np.array([0.02, 0.01]), np.array([0.5, -0.1]))
    assert scores.tolist() == pytest.approx([0.308, 0.004])


@given(PAIRS)
def test_whatever_comes_in_what_comes_out_can_be_ordered(pairs: list[tuple[float, float]]) -> None:
    one, other = arrays(pairs)
    legs = [Leg(one, 1.0), Leg(other, 0.8)]
    for found in (
        as_specified(legs, len(pairs)),
        by_rank(legs, len(pairs)),
        blend_as_specified(clean(one), other),
        clean(one),
    ):
        assert np.isfinite(found).all()
        assert ((found >= 0) & (found <= 1)).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20, unique=True))
def test_one_leg_by_rank_keeps_its_order(scores: list[float]) -> None:
    found = by_rank([Leg(np.array(scores), 1.0)], len(scores))
    assert np.argsort(-found).tolist() == np.argsort(-np.array(scores)).tolist()


def test_without_a_leg_there_is_nothing_to_say() -> None:
    assert by_rank([], 2).tolist() == [0.0, 0.0]
    assert as_specified([], 2).tolist() == [0.0, 0.0]
