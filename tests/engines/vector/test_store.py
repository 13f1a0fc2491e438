"""Vectors in a file, searched exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.vector.amvi import IDS, VECTORS, VectorStore, open_store, write_store
from engines.vector.embedder import unit
from engines.vector.scan import COSINE_DIGITS
from harness.core.errors import IndexNotReady

AXES = np.eye(3, 4, dtype=np.float16)


def store(vectors: NDArray[np.float16]) -> VectorStore:
    return VectorStore(tuple(f"d{at:02}" for at in range(len(vectors))), vectors)


def ask(vectors: NDArray[np.float16], query: list[float], k: int) -> list[tuple[str, float]]:
    return store(vectors).nearest(np.array(query, dtype=np.float32), k)


def test_the_highest_cosine_comes_first() -> None:
    vectors = np.array([[0.6, 0.8], [1, 0], [0.8, 0.6]], dtype=np.float16)
    found = ask(vectors, [1, 0], 3)
    assert [doc_id for doc_id, _ in found] == ["d01", "d02", "d00"]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.8, 0.6], abs=1e-3)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_ties_go_by_id_at_every_cut(k: int) -> None:
    vectors = np.array([[0, 1], [1, 0], [1, 0], [0.6, 0.8], [1, 0]], dtype=np.float16)
    found = [doc_id for doc_id, _ in ask(vectors, [1, 0], k)]
    assert found == ["d01", "d02", "d04", "d03"][:k]


def test_cosines_that_differ_below_half_precision_are_a_tie() -> None:
    vectors = np.array([[1, 0], [1, 0.0002]], dtype=np.float16)
    (one, first), (other, second) = ask(vectors, [1, 0.001], 2)
    assert (one, other) == ("d00", "d01")
    assert first == second == round(first, COSINE_DIGITS)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_right_angle_and_beyond_are_not_shown(k: int) -> None:
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float16)
    assert [doc_id for doc_id, _ in ask(vectors, [1, 0], k)] == ["d00"]
    assert ask(vectors, [0, -1], k) == []


def test_a_query_of_zeros_finds_nothing() -> None:
    assert ask(AXES, [0, 0, 0, 0], 5) == []


def test_nothing_stored_is_nothing_found() -> None:
    assert ask(np.zeros((0, 4), dtype=np.float16), [1, 0, 0, 0], 5) == []


@given(
    st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=30),
    st.lists(st.integers(-4, 4), min_size=3, max_size=3),
    st.integers(1, 35),
)
def test_as_a_plain_sort_finds_it(rows: list[list[int]], query: list[int], k: int) -> None:
    vectors = unit(np.array(rows, dtype=np.float32)).astype(np.float16)
    asked = unit(np.array([query], dtype=np.float32))[0]
    cosines = (vectors.astype(np.float64) @ asked.astype(np.float16).astype(np.float64)).tolist()
    found = ask(vectors, asked.tolist(), k)
    assert len(found) == min(k, sum(c > 1e-6 for c in cosines))
    positions = [int(doc_id[1:]) for doc_id, _ in found]
    by_hand = sorted(range(len(rows)), key=lambda at: (-round(cosines[at], 3), at))
    shown = [round(cosines[at], 3) for at in positions]
    assert shown == pytest.approx([round(cosines[at], 3) for at in by_hand[: len(found)]], abs=2e-3)
    assert [(-c, d) for d, c in found] == sorted((-c, d) for d, c in found)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_store(tmp_path, ["a", "é", "東"], AXES)
    opened = open_store(tmp_path, 4)
    assert opened.doc_ids == ("a", "é", "東")
    assert np.array_equal(opened.vectors, AXES)
    assert isinstance(opened.vectors, np.memmap)


def test_half_precision_is_half_the_bytes(tmp_path: Path) -> None:
    write_store(tmp_path, [f"d{at}" for at in range(100)], np.ones((100, 384), dtype=np.float16))
    assert (tmp_path / VECTORS).stat().st_size == 1_248 + 100 * 384 * 2


def test_the_same_vectors_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_store(tmp_path / name, ["a", "b", "c"], AXES)
    for file in (VECTORS, IDS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize("file", [VECTORS, IDS])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "garbage", "folder"])
def test_a_damaged_file_is_not_ready(tmp_path: Path, file: str, damage: str) -> None:
    write_store(tmp_path, ["a", "b", "c"], AXES)
    path = tmp_path / file
    whole = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes({"empty": b"", "cut": whole[:-5], "garbage": b"\x93" * 400}[damage])
    with pytest.raises(IndexNotReady, match="harness stage index"):
        open_store(tmp_path, 4)


@pytest.mark.parametrize(
    "vectors",
    [
        np.eye(3, 4, dtype=np.float32),
        np.eye(4, dtype=np.float16),
        np.eye(2, 4, dtype=np.float16),
        np.ones(3, dtype=np.float16),
        np.full((3, 4), np.nan, dtype=np.float16),
    ],
)
def test_vectors_that_are_not_one_for_each_document_are_not_written(
    tmp_path: Path, vectors: NDArray[np.float16]
) -> None:
    with pytest.raises(ValueError, match=r"vector|half"):
        write_store(tmp_path, ["a", "b", "c"], vectors)
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_another_dimension_or_number_are_not_ready(tmp_path: Path) -> None:
    write_store(tmp_path, ["a", "b", "c"], AXES)
    with pytest.raises(IndexNotReady, match=r"dimension 4.*harness stage index"):
        open_store(tmp_path, 3)
    write_store(tmp_path / "two", ["a", "b"], AXES[:2])
    (tmp_path / "two" / VECTORS).replace(tmp_path / VECTORS)
    with pytest.raises(IndexNotReady, match="2 vectors for 3 documents"):
        open_store(tmp_path, 4)


@pytest.mark.parametrize("ids", [3, None, ["a", "b"]])
def test_ids_that_do_not_fit_are_not_ready(tmp_path: Path, ids: object) -> None:
    write_store(tmp_path, ["a", "b", "c"], AXES)
    (tmp_path / IDS).write_text(json.dumps(ids))
    with pytest.raises(IndexNotReady):
        open_store(tmp_path, 4)
