"""``harness.measures.unjudged.settling``: the pairs that settle a bound, and no others first."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.settling import Withheld, tried, until_settled
from harness.core.errors import UnknownName
from harness.core.gate import Verdict
from harness.measures.unjudged.bounds import Bounding, Case
from harness.measures.unjudged.settling import Likely, Settling

MEASURE = "nDCG@10"
BINARY = Bounding.of(MEASURE, (0, 1))
DOCUMENTS = "abcdef"


def world(queries: int, *, better: bool, seed: int = 3) -> Withheld:
    """Judge a candidate that shows the control's documents, the relevant ones first (or last)."""
    rng = np.random.default_rng(seed)
    cases, grades = {}, {}
    for at in range(queries):
        ids = [f"d{doc}" for doc in rng.permutation(12)]
        good = {doc_id: int(rng.random() < 0.3) for doc_id in ids}
        sign = -1 if better else 1
        noisy = sorted(ids, key=lambda d: sign * good[d] + rng.normal(0, 0.6))
        cases[f"q{at}"] = Case(tuple(ids[:10]), tuple(noisy[:10]), {})
        shown = {*ids[:10], *noisy[:10]}
        grades[f"q{at}"] = {doc_id: good[doc_id] for doc_id in sorted(shown)}
    return Withheld(Settling.of(BINARY, -0.05), cases, grades)


@st.composite
def a_case(draw: st.DrawFn) -> Case:
    control, candidate = (
        tuple(draw(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=4, unique=True)))
        for _ in "ab"
    )
    judged = draw(st.lists(st.sampled_from(sorted({*control, *candidate})), max_size=3))
    return Case(control, candidate, dict.fromkeys(judged, 0))


@pytest.mark.parametrize("measure", ["nDCG@3", "nDCG@10", "R@3"])
@given(case=a_case())
def test_with_nothing_relevant_known_bounds_are_those_of_completions_with_a_value(
    measure: str, case: Case
) -> None:
    wanted = Bounding.of(measure, (0, 1, 2))
    unjudged = wanted.unjudged(case)
    ways = [
        case._replace(grades={**case.grades, **dict(zip(unjudged, grades, strict=True))})
        for grades in product((0, 1, 2), repeat=len(unjudged))
    ]
    values = [wanted.difference(way).worst for way in ways if wanted.defined(way)]
    if values:
        found = wanted.difference(case)
        assert found.worst == pytest.approx(min(values), abs=1e-12)
        assert found.best == pytest.approx(max(values), abs=1e-12)


@given(case=a_case(), bound=st.sampled_from([-0.05, 0.0, 0.1]), data=st.data())
def test_ends_only_get_nearer_to_each_other(case: Case, bound: float, data: st.DataObject) -> None:
    settling = Settling.of(BINARY, bound)
    before = settling.ends("q", case)
    for doc_id in BINARY.unjudged(case):
        case = case.with_judged(doc_id, data.draw(st.integers(0, 1)))
        after = settling.ends("q", case)
        assert before.low - 1e-12 <= after.low <= after.high <= before.high + 1e-12
        before = after
    assert before.low == before.high


def test_a_query_that_may_have_nothing_relevant_proves_nothing() -> None:
    settling = Settling.of(BINARY, -0.05)
    gained = Case(("a",), ("b",), {"a": 0})
    assert settling.ends("q", gained) == (-0.05, 1.0)
    assert settling.ends("q", gained.with_judged("b", 0)) == (-0.05, -0.05)
    assert settling.ends("q", gained.with_judged("b", 1)) == (1.0, 1.0)


def test_the_end_that_decides_is_what_is_judged_for() -> None:
    """With a mean above the bound, what may hurt the candidate comes before what may help it."""
    known = Case(("r", "a"), ("r", "b"), {"r": 1})
    clear = Case(("x",), ("y",), {"x": 0, "y": 1})
    (first, *_) = Settling.of(BINARY, 0.0).following({"q": known, "p": clear}, 1)
    assert (first.query_id, first.doc_id) == ("q", "a")
    worse = Case(("y",), ("x",), {"x": 0, "y": 1})
    (first, *_) = Settling.of(BINARY, 0.0).following({"q": known, "p": worse}, 1)
    assert (first.query_id, first.doc_id) == ("q", "b")


def test_what_is_likely_follows_what_was_judged() -> None:
    case = Case(("a", "b"), ("c", "a"), {})
    before = Likely.of(BINARY, [case])
    assert before.of_pair(case, "a") == before.of_pair(case, "c") == pytest.approx(1 / 2)
    assert before.of_pair(case, "b") == pytest.approx(1 / 3)
    after = Likely.of(BINARY, [case.with_judged("a", 0)] * 20)
    assert after.of_pair(case, "c") < 0.15
    assert not after.expects(case, "c")
    assert after.of_pair(case, "b") == pytest.approx(1 / 3)


@pytest.mark.parametrize(("better", "says"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_a_gate_is_settled_with_fewer_judgements_and_as_by_all(
    *, better: bool, says: Verdict
) -> None:
    held = world(50, better=better)
    whole = held.verdict(held.judged(held.cases, held.pairs))
    assert whole is says
    labels, said = until_settled(
        held, lambda now: [p[1:] for p in held.settling.following(now, 50)]
    )
    assert said is says
    assert labels < 0.9 * len(held.pairs)


def test_whatever_the_others_turn_out_to_be_the_verdict_stays() -> None:
    held = world(50, better=True)
    cases = held.cases
    while held.verdict(cases) is Verdict.INCONCLUSIVE:
        cases = held.judged(cases, [p[1:] for p in held.settling.following(cases, 50)])
    rng = np.random.default_rng(1)
    for chance in (0.0, 0.1, 0.5, 1.0):
        completed = dict(cases)
        for query_id, case in cases.items():
            for doc_id in BINARY.unjudged(case):
                grade = int(rng.random() < chance)
                completed[query_id] = completed[query_id].with_judged(doc_id, grade)
        assert held.verdict(completed) is Verdict.PASS


def test_the_table_has_each_order() -> None:
    held = world(50, better=True)
    found = tried(held, 1)
    assert list(found) == ["random", "bounds", "settle", "queries"]
    assert held.passes
    assert Verdict.FAIL not in {said for one in found.values() for said in one.verdicts}
    assert found["settle"].labels <= found["bounds"].labels


def test_measures_without_exact_bounds_are_refused() -> None:
    with pytest.raises(UnknownName, match="measure for the order settle named 'AP'"):
        Settling.of(Bounding.of("AP@10", (0, 1)), 0.0)
