"""Sparse vectors in rows: dot products, the file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.sparse import SparseStore, Terms
from harness.core.errors import IndexNotReady

VOCABULARY = 12
ROW = st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(0.125, 4, width=16), max_size=6)


def sparse(row: dict[int, float]) -> Terms:
    terms = np.array(sorted(row), dtype=np.int64)
    return Terms(terms, np.array([row[term] for term in sorted(row)], dtype=np.float32))


def store_of(rows: list[dict[int, float]]) -> SparseStore:
    found = [sparse(row) for row in rows]
    return SparseStore.of([(t, w.astype(np.float16)) for t, w in found], VOCABULARY)


@given(rows=st.lists(ROW, max_size=8), query=ROW, data=st.data())
def test_dots_are_those_of_the_dense_vectors(
    rows: list[dict[int, float]], query: dict[int, float], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    found = store_of(rows).dots(sparse(query), np.array(wanted, dtype=np.int64))
    expected = [sum(query.get(t, 0.0) * w for t, w in rows[row].items()) for row in wanted]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    made = store_of([{1: 0.5}, {}, {0: 1.0, 11: 2.0}])
    made.write(tmp_path / "terms.npz")
    read = SparseStore.open(tmp_path / "terms.npz")
    assert len(read) == 3
    assert read.vocabulary == VOCABULARY
    for name in ("offsets", "terms", "weights"):
        assert getattr(read, name).tolist() == getattr(made, name).tolist()


def test_a_broken_file_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "terms.npz"
    with pytest.raises(IndexNotReady, match="harness index"):
        SparseStore.open(path)
    store_of([{1: 0.5}]).write(path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(IndexNotReady):
        SparseStore.open(path)


@pytest.mark.parametrize(
    "wrong",
    [
        SparseStore(VOCABULARY, np.array([0, 9]), np.zeros(1, np.uint16), np.ones(1, np.float16)),
        SparseStore(VOCABULARY, np.array([0, 1]), np.zeros(1, np.uint16), np.ones(2, np.float16)),
        SparseStore(
            VOCABULARY, np.array([0, 1]), np.full(1, 12, np.uint16), np.ones(1, np.float16)
        ),
    ],
    ids=["rows", "weights", "terms"],
)
def test_parts_that_do_not_fit_are_not_ready(wrong: SparseStore, tmp_path: Path) -> None:
    wrong.write(tmp_path / "terms.npz")
    with pytest.raises(IndexNotReady, match="do not fit"):
        SparseStore.open(tmp_path / "terms.npz")


def test_a_vocabulary_beyond_16_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bits"):
        SparseStore.of([], 1 << 17)
