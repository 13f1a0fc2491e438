"""Scaling to length 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engines.vector.embedder import unit


def test_a_worked_example() -> None:
    rows = np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32)
    assert unit(rows).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [0, -1]]


@given(arrays(np.float32, (5, 3), elements=st.floats(-100, 100, width=32)))
def test_every_row_has_length_one_or_was_nothing(rows: np.ndarray) -> None:
    length = np.linalg.norm(rows, axis=1)
    kept = rows[(length == 0) | (length > 1e-3)]
    found = np.linalg.norm(unit(kept), axis=1)
    assert np.all((np.abs(found - 1) < 1e-5) | (found == 0))
    assert np.array_equal(found == 0, np.linalg.norm(kept, axis=1) == 0)
