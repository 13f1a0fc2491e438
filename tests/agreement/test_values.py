"""Each measure of agreement, held to its formula."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from harness.agreement import (
    Discordance,
    jaccard,
    length_difference,
    pseudo_ndcg,
    rbo,
    serving_only,
    shadow_only,
    tau,
    tau_ap,
)
from harness.core.errors import HarnessError
from tests.agreement import reference
from tests.agreement.reference import depths, found, pair_of, rankings, shared_ranks


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


def one_way(a: Sequence[str], b: Sequence[str]) -> float:
    """2 / (N - 1) sum of C(i) / (i - 1), less 1, as the paper writes it."""
    total = 0.0
    for i in range(1, len(a)):
        total += sum(b.index(above) < b.index(a[i]) for above in a[:i]) / i
    return 2 / (len(a) - 1) * total - 1


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_is_the_formula_both_ways_and_symmetric(a: list[str], b: list[str], depth: int) -> None:
    ours, swapped = tau_ap(pair_of(a, b), depth), tau_ap(pair_of(b, a), depth)
    here = [d for d in a[:depth] if d in b[:depth]]
    there = [d for d in b[:depth] if d in a[:depth]]
    if len(here) < 2:
        assert ours.defined.tolist() == [False]
        return
    wanted = (one_way(here, there) + one_way(there, here)) / 2
    assert ours.values[0] == pytest.approx(wanted, abs=1e-12)
    assert swapped.values[0] == pytest.approx(wanted, abs=1e-12)
    assert -1 - 1e-12 <= ours.values[0] <= 1


def test_the_top_weighs_more_in_tau_ap() -> None:
    def value(b: str) -> float:
        return float(tau_ap(pair_of(list("abcdefgh"), list(b)), 10).values[0])

    assert value("abcdefgh") == 1.0
    assert value("hgfedcba") == pytest.approx(-1.0)
    assert value("bacdefgh") < value("abcdefhg") < 1


def test_counts_are_of_shared_documents_alone() -> None:
    found = Discordance.of(pair_of(list("axbc"), list("cyba")), 10)
    assert found.shared.tolist() == [[True, False, True, True]]
    assert found.before.tolist() == [[0, 0, 1, 2]]
    assert found.after.tolist() == [[2, 0, 1, 0]]


def test_many_queries_are_what_each_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness import agreement
    from harness.agreement import Pair
    from tests.make.runs import random_case

    control, candidate = random_case(1)[0], random_case(2)[0]
    whole = tau_ap(Pair.of(control, candidate), 20).values.tolist()
    monkeypatch.setattr(agreement, "BLOCK", 50)
    assert tau_ap(Pair.of(control, candidate), 20).values.tolist() == whole


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


def test_worked_example_of_counts() -> None:
    pair = pair_of(list("abcde"), list("bcx"))
    assert serving_only(pair, 10).tolist() == [3]
    assert shadow_only(pair, 10).tolist() == [1]
    assert serving_only(pair, 2).tolist() == [1]
    assert length_difference(pair).tolist() == [-2]


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_counts_are_those_of_the_sets_and_swap_with_the_arms(
    a: list[str], b: list[str], depth: int
) -> None:
    pair, swapped = pair_of(a, b), pair_of(b, a)
    assert serving_only(pair, depth).tolist() == [len(set(a[:depth]) - set(b[:depth]))]
    assert shadow_only(pair, depth).tolist() == serving_only(swapped, depth).tolist()
    assert length_difference(pair).tolist() == [len(b) - len(a)]
