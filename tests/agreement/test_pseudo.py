"""nDCG of the shadow against the serving list."""

from __future__ import annotations

import math

import ir_measures
import pytest
from hypothesis import given, settings

from harness.agreement import pseudo_ndcg
from tests.agreement import reference
from tests.agreement.strategies import depths, found, pair_of, rankings


@settings(deadline=None)
@given(control=found, candidate=rankings, depth=depths)
def test_is_the_formula_between_0_and_1(
    control: list[str], candidate: list[str], depth: int
) -> None:
    ours = pseudo_ndcg(pair_of(control, candidate), depth).values[0]
    assert ours == pytest.approx(reference.pseudo_ndcg(control, candidate, depth), abs=1e-12)
    assert 0 <= ours <= 1


def test_equals_ir_measures_with_the_serving_list_as_judgements() -> None:
    control, candidate = list("abcdefghijkl"), list("caxbedyklj")
    judged = [ir_measures.Qrel("q", d, 10 - at) for at, d in enumerate(control[:10])]
    shown = [ir_measures.ScoredDoc("q", d, -at) for at, d in enumerate(candidate)]
    theirs = next(iter(ir_measures.iter_calc([ir_measures.nDCG @ 10], judged, shown))).value
    ours = pseudo_ndcg(pair_of(control, candidate), 10).values
    assert ours.tolist() == [pytest.approx(theirs, abs=1e-12)]


def test_gains_fall_from_k_to_1() -> None:
    swapped = (2 / math.log2(2) + 3 / math.log2(3)) / (3 / math.log2(2) + 2 / math.log2(3))
    ours = pseudo_ndcg(pair_of(["a", "b"], ["b", "a"]), 3).values
    assert ours.tolist() == [pytest.approx(swapped)]


def test_is_asymmetric() -> None:
    a, b = list("abcd"), list("a")
    here, there = pseudo_ndcg(pair_of(a, b), 10), pseudo_ndcg(pair_of(b, a), 10)
    assert here.values[0] < there.values[0] == 1.0


def test_an_empty_serving_list_judges_nothing() -> None:
    assert pseudo_ndcg(pair_of([], ["a"]), 10).defined.tolist() == [False]
    assert pseudo_ndcg(pair_of(["a"], []), 10).values.tolist() == [0.0]
