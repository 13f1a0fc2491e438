"""Rank-biased overlap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import rbo
from harness.core.errors import HarnessError
from tests.agreement import reference
from tests.agreement.strategies import depths, found, pair_of, rankings


def value(a: list[str], b: list[str], depth: int = 10, p: float = 0.9) -> float:
    return float(rbo(pair_of(a, b), depth, p).values[0])


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths, p=st.floats(0.05, 0.99))
def test_rbo_is_the_formula_symmetric_and_between_0_and_1(
    a: list[str], b: list[str], depth: int, p: float
) -> None:
    here = rbo(pair_of(a, b), depth, p)
    if not a and not b:
        assert not here.defined.any()
        return
    assert here.values[0] == pytest.approx(reference.rbo(a[:depth], b[:depth], p), abs=1e-12)
    assert here.values[0] == pytest.approx(value(b, a, depth, p), abs=1e-15)
    assert 0 <= here.values[0] <= 1


@settings(deadline=None)
@given(a=found, b=found)
def test_is_1_exactly_where_one_list_starts_with_the_other(a: list[str], b: list[str]) -> None:
    shorter = min(len(a), len(b))
    assert (value(a, b) > 1 - 1e-12) is (a[:shorter] == b[:shorter])


@settings(deadline=None)
@given(a=found)
def test_a_list_agrees_with_itself(a: list[str]) -> None:
    assert value(a, a) == pytest.approx(1.0, abs=1e-12)


def test_worked_example() -> None:
    """X = 0, 2, 2 at depths 1, 2, 3: 0.1 / 0.9 (0.81 + 2 / 3 0.729) + 2 / 3 0.729."""
    wanted = 0.1 / 0.9 * (0.81 + 2 / 3 * 0.729) + 2 / 3 * 0.729
    assert value(["a", "b", "c"], ["b", "a", "x"]) == pytest.approx(wanted, abs=1e-15)


def test_the_top_weighs_more() -> None:
    a = list("abcdefgh")
    assert value(a, list("bacdefgh")) < value(a, list("abcdefhg")) < 1


def test_no_overlap_and_one_empty_list_are_0() -> None:
    assert value(["a"], ["b"]) == 0.0
    assert value(["a"], []) == 0.0


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.1, float("nan")])
def test_a_persistence_outside_0_and_1_is_refused(p: float) -> None:
    with pytest.raises(HarnessError, match="persistence"):
        rbo(pair_of(["a"], ["a"]), 10, p)
