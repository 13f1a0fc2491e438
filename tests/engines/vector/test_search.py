"""Exact search: the best of many scores, filters, threads and ties."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numkong
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness_engines.vector import scan
from harness_engines.vector.embedder import unit
from harness_engines.vector.scan import BLOCK, COSINE_DIGITS, Top, best, merged, nearest

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
def test_as_a_plain_sort_finds_it_of_topk(values: list[float], k: int, size: int) -> None:
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


DIMENSION = 24
TOLERANCE = 2e-6


def drawn(seed: int, count: int, dimension: int = DIMENSION) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return unit(drawn).astype(np.float16)


def exact(vectors: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float64]:
    return vectors.astype(np.float64) @ query.astype(np.float16).astype(np.float64)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32), st.integers(1, 900), st.integers(1, 30), st.floats(0, 1), st.booleans()
)
def test_a_filter_applies_before_ranking(
    seed: int,
    count: int,
    k: int,
    share: float,
    near: bool,  # noqa: FBT001  drawn by hypothesis
) -> None:
    vectors, query = drawn(seed, count), drawn(seed + 1, 1)[0].astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(seed).random(count) < share)
    rows = rows[: len(rows) // 2] if near else rows
    cosines = exact(vectors, query)
    found = nearest(vectors, query, k, rows)
    assert set(found.positions.tolist()) <= set(rows.tolist())
    assert np.allclose(cosines[found.positions], found.scores, rtol=0, atol=TOLERANCE)
    best = np.sort(cosines[rows])[::-1][:k]
    assert np.allclose(found.scores, best, rtol=0, atol=TOLERANCE)
    assert pairs(found) == sorted(pairs(found), key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.slow
@pytest.mark.parametrize("read_over", [1, 10_000])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_reading_over_and_copying_give_the_same(
    monkeypatch: pytest.MonkeyPatch, read_over: int, share: float
) -> None:
    vectors, query = drawn(3, 5_000, 384), drawn(4, 1, 384)[0].astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(5).random(len(vectors)) < share)
    every = dict(pairs(nearest(vectors, query, len(vectors))))
    monkeypatch.setattr(scan, "READ_OVER", read_over)
    monkeypatch.setattr(scan, "GATHER_ROWS", 300)
    found = pairs(nearest(vectors, query, 50, rows))
    by_hand = sorted(rows.tolist(), key=lambda row: (-every[row], row))[:50]
    assert found == [(row, every[row]) for row in by_hand]


@pytest.mark.parametrize(("step", "times"), [(100, 1), (6, 1), (4, 4), (1, 1)])
def test_rows_that_may_not_be_found_are_read_only_where_they_are_few(
    monkeypatch: pytest.MonkeyPatch, step: int, times: int
) -> None:
    read: list[int] = []

    def watched(asked: Any, vectors: Any, metric: Any, out: Any) -> None:  # noqa: ANN401  numkong's
        read.append(len(vectors))
        numkong.cdist(asked, vectors, metric, out=out)

    monkeypatch.setattr(scan, "numkong", SimpleNamespace(cdist=watched))
    rows = np.arange(0, 30_000, step)
    nearest(drawn(1, 30_000), np.ones(DIMENSION, np.float32), 3, rows)
    assert sum(read) == pytest.approx(times * len(rows), rel=0.01)
    assert max(read) <= scan.GATHER_ROWS * scan.READ_OVER


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_never_change_the_answer(
    monkeypatch: pytest.MonkeyPatch, threads: int, *, filtered: bool
) -> None:
    monkeypatch.setattr(scan, "THREAD_ROWS", 100)
    monkeypatch.setattr(scan, "SCAN_ROWS", 256)
    vectors = np.concatenate([drawn(1, 999), drawn(1, 999)])
    query = vectors[7].astype(np.float32)
    rows = np.arange(0, len(vectors), 3) if filtered else None
    alone = nearest(vectors, query, 100, rows)
    assert pairs(nearest(vectors, query, 100, rows, threads)) == pairs(alone)
    assert len(alone.positions) == 100


def test_a_vector_scores_the_same_in_every_company() -> None:
    vectors, query = drawn(8, 400, 384), drawn(9, 1, 384)[0].astype(np.float32)
    together = dict(pairs(nearest(vectors, query, 400)))
    for size in (1, 2, 3, 7, 16, 33):
        for low in range(0, 400 - size, 37):
            some = pairs(nearest(vectors[low : low + size], query, size))
            assert {low + row: cosine for row, cosine in some} == {
                row: together[row] for row in range(low, low + size)
            }


def test_sums_are_carried_in_single_precision() -> None:
    vectors = drawn(10, 2_000, 384)
    query = drawn(11, 1, 384)[0].astype(np.float32)
    found = nearest(vectors, query, len(vectors))
    off = np.abs(exact(vectors, query)[found.positions] - found.scores)
    assert off.max() <= 0.5 * 10**-COSINE_DIGITS + 1e-6


def test_no_allowed_row_finds_nothing() -> None:
    assert pairs(nearest(drawn(1, 9), np.ones(DIMENSION, np.float32), 3, np.zeros(0, int))) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e6])
def test_a_query_that_is_not_finite_is_refused(bad: float) -> None:
    query = np.zeros(DIMENSION, dtype=np.float32)
    query[5] = bad
    with pytest.raises(ValueError, match="not finite"):
        nearest(drawn(1, 9), query, 3)


@pytest.mark.parametrize("shape", [(DIMENSION - 1,), (DIMENSION, 1), (1, DIMENSION), ()])
def test_a_query_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="dimension 24"):
        nearest(drawn(1, 9), np.zeros(shape, dtype=np.float32), 3)


@pytest.mark.parametrize("rows", [[3, 2], [2, 2]])
def test_rows_that_do_not_ascend_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        nearest(drawn(1, 9), np.ones(DIMENSION, np.float32), 3, np.array(rows))


def test_a_stored_vector_that_is_not_finite_is_no_answer() -> None:
    vectors = drawn(1, 9)
    vectors[4, 2] = np.nan
    with pytest.raises(ValueError, match="not a finite number"):
        nearest(vectors, np.ones(DIMENSION, np.float32), 3)
