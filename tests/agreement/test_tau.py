"""Kendall's tau-b."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from scipy.stats import kendalltau

from harness.agreement import tau
from tests.agreement.reference import shared_ranks
from tests.agreement.strategies import depths, pair_of, rankings


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_equals_scipy_and_is_undefined_below_two_shared(
    a: list[str], b: list[str], depth: int
) -> None:
    ours = tau(pair_of(a, b), depth)
    ranks = shared_ranks(a[:depth], b[:depth])
    if len(ranks[0]) < 2:
        assert ours.defined.tolist() == [False]
        assert ours.values.tolist() == []
        return
    assert ours.values[0] == pytest.approx(kendalltau(*ranks, variant="b").statistic, abs=1e-12)
    assert -1 <= ours.values[0] <= 1


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_is_symmetric(a: list[str], b: list[str], depth: int) -> None:
    here, there = tau(pair_of(a, b), depth), tau(pair_of(b, a), depth)
    assert here.values.tolist() == there.values.tolist()


@pytest.mark.parametrize(
    ("a", "b", "wanted"), [("abcd", "abcd", 1.0), ("abcd", "dcba", -1.0), ("abc", "acb", 1 / 3)]
)
def test_worked_examples(a: str, b: str, wanted: float) -> None:
    assert tau(pair_of(list(a), list(b)), 10).values.tolist() == [pytest.approx(wanted)]


def test_absolute_ranks_would_leave_the_range() -> None:
    """Two shared documents in one order, far apart: the squared distances of ranks say -127."""
    a = ["s", "t", *(f"a{at}" for at in range(8))]
    b = [*(f"b{at}" for at in range(8)), "s", "t"]
    here, there = shared_ranks(a, b)
    n = len(here)
    absolute = 1 - 6 * sum((x - y) ** 2 for x, y in zip(here, there, strict=True)) / (n**3 - n)
    assert absolute == -127
    assert tau(pair_of(a, b), 10).values.tolist() == [1.0]


def test_what_only_one_list_shows_moves_nothing() -> None:
    short = tau(pair_of(list("abc"), list("cab")), 10)
    long = tau(pair_of(["x", "a", "y", "b", "c"], ["c", "v", "w", "a", "b"]), 10)
    assert short.values.tolist() == long.values.tolist() == [pytest.approx(-1 / 3)]
