"""The best scores of many, against a plain sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.vector.scan import BLOCK, Top, best, merged

DIGITS = 6
Floats = NDArray[np.float64]


def sorted_plainly(scores: Floats, k: int) -> list[tuple[int, float]]:
    rounded = scores.round(DIGITS).tolist()
    by_hand = sorted(range(len(rounded)), key=lambda at: (-rounded[at], at))[:k]
    return [(at, rounded[at]) for at in by_hand]


def pairs(top: Top) -> list[tuple[int, float]]:
    return list(zip(top.positions.tolist(), top.scores.tolist(), strict=True))


def cut(scores: Floats, size: int) -> list[Floats]:
    return [scores[low : low + size] for low in range(0, len(scores), size)]


@given(
    st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.25 + 4e-7, 0.25 + 6e-7, 1.0]), max_size=60),
    st.integers(1, 65),
    st.integers(1, 61),
)
def test_as_a_plain_sort_finds_it(values: list[float], k: int, size: int) -> None:
    scores = np.array(values, dtype=np.float64)
    assert pairs(best(cut(scores, size), k, DIGITS)) == sorted_plainly(scores, k)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40 * BLOCK),
    st.sampled_from([1, 2, 5, 11, 40, 700]),
    st.integers(BLOCK // 2, 40 * BLOCK),
    st.sampled_from([2, 6]),
)
def test_blocks_that_cannot_hold_the_best_are_all_that_is_passed_over(
    seed: int, count: int, k: int, size: int, spread: int
) -> None:
    scores = np.random.default_rng(seed).normal(size=count).round(spread) / 20
    assert pairs(best(cut(scores, size), k, DIGITS)) == sorted_plainly(scores, k)


@pytest.mark.parametrize("order", [1, -1])
def test_rising_and_falling_scores(order: int) -> None:
    scores = np.linspace(-1, 1, 5 * BLOCK + 3)[::order]
    assert pairs(best(cut(scores, 2 * BLOCK), 9, DIGITS)) == sorted_plainly(scores, 9)


def test_a_score_that_rounds_up_to_the_bound_is_not_lost() -> None:
    scores = np.full(3 * BLOCK, -1.0)
    scores[[5, BLOCK, 2 * BLOCK]] = [0.1234560 - 4.9e-7, 0.1234560 + 4.9e-7, 0.5]
    assert pairs(best([scores], 2, DIGITS)) == [(2 * BLOCK, 0.5), (5, 0.123456)]


def test_the_first_of_equal_scores_are_kept_over_all_parts() -> None:
    scores = np.zeros(4 * BLOCK)
    assert best(cut(scores, BLOCK), 3, DIGITS).positions.tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [20 * BLOCK + 1, 20 * BLOCK + 3, 21 * BLOCK])
def test_the_last_score_of_many_blocks_is_found(count: int) -> None:
    scores = np.zeros(count)
    scores[-1] = 0.5
    assert pairs(best([scores], 1, DIGITS)) == [(count - 1, 0.5)]


@pytest.mark.parametrize("count", [9 * BLOCK, 300 * BLOCK])
def test_few_are_scored_once_more_also_where_there_are_fewer_blocks_than_are_wanted(
    count: int,
) -> None:
    scores = np.random.default_rng(7).permutation(count) / count
    again: list[int] = []

    def exact(at: NDArray[np.int64]) -> Floats:
        again.append(len(at))
        return scores[at]

    assert pairs(best([scores], 100, DIGITS, exact)) == sorted_plainly(scores, 100)
    assert again == [100]


def test_scores_that_are_off_by_a_unit_do_not_change_what_is_found() -> None:
    drawn = np.random.default_rng(7)
    scores = drawn.integers(0, 300, size=9 * BLOCK) / 10**DIGITS
    off = scores + drawn.uniform(-0.9, 0.9, size=len(scores)) / 10**DIGITS
    found = best([off], 100, DIGITS, lambda at: scores[at])
    assert pairs(found) == sorted_plainly(scores, 100)


def test_more_than_there_are_gives_all() -> None:
    assert pairs(best([np.array([0.1, 0.3])], 9, DIGITS)) == [(1, 0.3), (0, 0.1)]


def test_of_nothing_the_best_are_none() -> None:
    assert pairs(best([], 3, DIGITS)) == pairs(best([np.zeros(0)], 3, DIGITS)) == []


def test_minus_zero_is_shown_as_zero() -> None:
    (shown,) = best([np.array([-1e-9])], 1, DIGITS).scores.tolist()
    assert str(shown) == "0.0"


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, BLOCK, 2 * BLOCK])
def test_a_score_that_is_no_number_is_refused_wherever_it_stands(wrong: float, at: int) -> None:
    scores = np.linspace(1, 0, 2 * BLOCK + 1)
    scores[at] = wrong
    with pytest.raises(ValueError, match="not a finite number"):
        best([np.ones(5), scores], 1, DIGITS)


@pytest.mark.parametrize("k", [0, -1])
def test_at_least_one_must_be_asked_for(k: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        best([np.ones(5)], k, DIGITS)


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3]), max_size=40), st.integers(1, 20), st.integers(0, 40)
)
def test_two_ranges_merged_are_as_one(values: list[float], k: int, middle: int) -> None:
    scores = np.array(values, dtype=np.float64)
    left, right = (best([half], k, DIGITS) for half in (scores[:middle], scores[middle:]))
    moved = Top(right.positions + len(scores[:middle]), right.scores)
    assert pairs(merged([left, moved], k)) == sorted_plainly(scores, k)
