"""Whether a code comes twice in a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measures.columns import SPARSE, repeats

ROWS = st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=9)


def asked(rows: list[list[int]]) -> bool:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return repeats(np.array([code for row in rows for code in row], dtype=np.int32), offsets)


@given(ROWS)
def test_it_says_what_sets_say(rows: list[list[int]]) -> None:
    assert asked(rows) == any(len(set(row)) < len(row) for row in rows)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("short", [0, 1, 100 * SPARSE])
def test_rows_of_one_length_of_two_and_of_very_different_ones(short: int, again: bool) -> None:  # noqa: FBT001  a case
    long = list(range(50))
    rows = [long[:-1] if short else long] * 3 + [long, *([[7]] * short)]
    rows[1] = [*long[1:-1], long[1]] if again else rows[1]
    assert asked(rows) is again
