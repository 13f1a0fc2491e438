"""Rows of runs drawn at random."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.run import Row, Status

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4) | st.sampled_from("abc")
scores = st.floats(-1e9, 1e9)
hits = st.builds(Hit, ids, scores, scores)


@st.composite
def rows(draw: st.DrawFn) -> Sequence[Row]:
    """Draw rows of all ends, with documents shown twice and ids of any characters."""
    query_ids = draw(st.lists(ids, unique=True, max_size=8))
    found = []
    for query_id in query_ids:
        status = draw(st.sampled_from(Status))
        answered = status is Status.ANSWERED
        shown = draw(st.lists(hits, max_size=6)) if answered else []
        error = "" if answered else draw(ids)
        count = draw(st.integers(0, 3))
        found.append(Row(query_id, status, tuple(shown), draw(ids), error, count))
    return found
