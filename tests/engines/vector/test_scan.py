"""Exact search over vectors, against double precision and a plain sort."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numkong
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.vector import scan
from engines.vector.embedder import unit
from engines.vector.scan import COSINE_DIGITS, Top, nearest

DIMENSION = 24
TOLERANCE = 2e-6


def made(seed: int, count: int, dimension: int = DIMENSION) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return unit(drawn).astype(np.float16)


def pairs(top: Top) -> list[tuple[int, float]]:
    return list(zip(top.positions.tolist(), top.scores.tolist(), strict=True))


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
    vectors, query = made(seed, count), made(seed + 1, 1)[0].astype(np.float32)
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
    vectors, query = made(3, 5_000, 384), made(4, 1, 384)[0].astype(np.float32)
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
    nearest(made(1, 30_000), np.ones(DIMENSION, np.float32), 3, rows)
    assert sum(read) == pytest.approx(times * len(rows), rel=0.01)
    assert max(read) <= scan.GATHER_ROWS * scan.READ_OVER


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_never_change_the_answer(
    monkeypatch: pytest.MonkeyPatch, threads: int, *, filtered: bool
) -> None:
    monkeypatch.setattr(scan, "THREAD_ROWS", 100)
    monkeypatch.setattr(scan, "SCAN_ROWS", 256)
    vectors = np.concatenate([made(1, 999), made(1, 999)])
    query = vectors[7].astype(np.float32)
    rows = np.arange(0, len(vectors), 3) if filtered else None
    alone = nearest(vectors, query, 100, rows)
    assert pairs(nearest(vectors, query, 100, rows, threads)) == pairs(alone)
    assert len(alone.positions) == 100


def test_a_vector_scores_the_same_in_every_company() -> None:
    vectors, query = made(8, 400, 384), made(9, 1, 384)[0].astype(np.float32)
    together = dict(pairs(nearest(vectors, query, 400)))
    for size in (1, 2, 3, 7, 16, 33):
        for low in range(0, 400 - size, 37):
            some = pairs(nearest(vectors[low : low + size], query, size))
            assert {low + row: cosine for row, cosine in some} == {
                row: together[row] for row in range(low, low + size)
            }


def test_sums_are_carried_in_single_precision() -> None:
    vectors = made(10, 2_000, 384)
    query = made(11, 1, 384)[0].astype(np.float32)
    found = nearest(vectors, query, len(vectors))
    off = np.abs(exact(vectors, query)[found.positions] - found.scores)
    assert off.max() <= 0.5 * 10**-COSINE_DIGITS + 1e-6


def test_no_allowed_row_finds_nothing() -> None:
    assert pairs(nearest(made(1, 9), np.ones(DIMENSION, np.float32), 3, np.zeros(0, int))) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e6])
def test_a_query_that_is_not_finite_is_refused(bad: float) -> None:
    query = np.zeros(DIMENSION, dtype=np.float32)
    query[5] = bad
    with pytest.raises(ValueError, match="not finite"):
        nearest(made(1, 9), query, 3)


@pytest.mark.parametrize("shape", [(DIMENSION - 1,), (DIMENSION, 1), (1, DIMENSION), ()])
def test_a_query_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="dimension 24"):
        nearest(made(1, 9), np.zeros(shape, dtype=np.float32), 3)


@pytest.mark.parametrize("rows", [[3, 2], [2, 2]])
def test_rows_that_do_not_ascend_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        nearest(made(1, 9), np.ones(DIMENSION, np.float32), 3, np.array(rows))


def test_a_stored_vector_that_is_not_finite_is_no_answer() -> None:
    vectors = made(1, 9)
    vectors[4, 2] = np.nan
    with pytest.raises(ValueError, match="not a finite number"):
        nearest(vectors, np.ones(DIMENSION, np.float32), 3)
