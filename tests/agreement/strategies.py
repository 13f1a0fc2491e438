"""Pairs of rankings drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.agreement import Pair
from tests.make.runs import run_of

DOCUMENTS = [f"d{at}" for at in range(12)]

rankings = st.lists(st.sampled_from(DOCUMENTS), unique=True, max_size=10)
found = st.lists(st.sampled_from(DOCUMENTS), unique=True, min_size=1, max_size=10)
depths = st.integers(1, 12)


def pair_of(a: list[str], b: list[str]) -> Pair:
    """Put two lists for one query side by side."""
    return Pair.of(run_of({"q": a}, "control"), run_of({"q": b}, "candidate"))
