"""Jaccard@k."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import jaccard
from tests.agreement import reference
from tests.agreement.strategies import depths, pair_of, rankings


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_jaccard_is_the_formula_symmetric_and_between_0_and_1(
    a: list[str], b: list[str], depth: int
) -> None:
    here, there = jaccard(pair_of(a, b), depth), jaccard(pair_of(b, a), depth)
    if not a and not b:
        assert not here.defined.any()
        assert not len(here.values)
        return
    assert here.values.tolist() == there.values.tolist()
    assert here.values.tolist() == [pytest.approx(reference.jaccard(a[:depth], b[:depth]))]
    assert 0 <= here.values[0] <= 1


@settings(deadline=None)
@given(a=rankings, b=rankings, late=st.lists(st.sampled_from(["x", "y", "z"]), unique=True))
def test_documents_after_the_cutoff_change_nothing(
    a: list[str], b: list[str], late: list[str]
) -> None:
    depth = max(len(a), len(b), 1)
    a = a + [f"fill{at}" for at in range(depth - len(a))]
    b = b + [f"fill{at}" for at in range(depth - len(b))]
    longer = pair_of(a + late, b + late[::-1])
    assert jaccard(longer, depth).values.tolist() == jaccard(pair_of(a, b), depth).values.tolist()


def test_one_empty_list_shares_nothing() -> None:
    assert jaccard(pair_of(["a"], []), 10).values.tolist() == [0.0]
    assert jaccard(pair_of([], ["a"]), 10).values.tolist() == [0.0]


def test_a_list_cut_short_shows() -> None:
    """Dividing by the shorter list would give 1."""
    control, candidate = list("abcdefghij"), list("ab")
    assert jaccard(pair_of(control, candidate), 10).values.tolist() == [0.2]
