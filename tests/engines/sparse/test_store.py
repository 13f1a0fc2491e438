"""Sparse vectors in rows: dot products, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.sparse import SparseStore, Terms

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


def test_a_vocabulary_beyond_16_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bits"):
        SparseStore.of([], 1 << 17)
