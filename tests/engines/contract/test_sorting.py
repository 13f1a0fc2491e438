"""Rows are sorted as Python sorts them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engines.contract import sort_by_id

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS)))
def test_rows_come_in_code_point_order(rows: list[tuple[str, str, str]]) -> None:
    assert list(sort_by_id(iter(rows))) == sorted(rows)
