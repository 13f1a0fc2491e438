"""``harness.measures.unjudged.settling``: drawn queries settle a bound, and no false one often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.settling import Withheld, tried
from harness.core.errors import UnknownName
from harness.core.gate import Verdict
from harness.measures.unjudged.bounds import Bounding, Case
from harness.measures.unjudged.settling import Settling, scale_of

BINARY = Bounding.of("nDCG@10", (0, 1))
DOCUMENTS = "abcdef"
Draws = Callable[[int, int], int]


def world(queries: int, *, gain: float, bound: float = -0.05, seed: int = 3) -> Withheld:
    """Let the candidate move relevant documents up by ``gain``; half of the lists hardly differ."""
    rng = np.random.default_rng(seed)
    cases, grades = {}, {}
    for at in range(queries):
        ids = [f"d{doc:02}" for doc in rng.permutation(12)]
        good = {doc_id: int(rng.random() < 0.3) for doc_id in ids}
        places = {d: rank - gain * 10 * good[d] for rank, d in enumerate(ids)}
        spread = 2.0 if at % 2 else 30.0
        other = sorted(ids, key=lambda d: places[d] + spread * rng.random())
        cases[f"q{at:03}"] = Case(tuple(ids[:10]), tuple(other[:10]), {})
        grades[f"q{at:03}"] = {d: good[d] for d in sorted({*ids[:10], *other[:10]})}
    return Withheld(BINARY, bound, cases, grades, {})


def settling(held: Withheld, seed: int = 1, clusters: dict[str, str] | None = None) -> Settling:
    return Settling.of(BINARY, held.bound, held.cases, clusters or {}, seed)


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
def test_no_query_counts_for_more_than_the_largest_difference_there_can_be(
    case: Case, bound: float, data: st.DataObject
) -> None:
    """Whatever is judged: the distance to the bound, over the probability of being judged."""
    whole = case._replace(
        grades={doc_id: data.draw(st.integers(0, 1)) for doc_id in BINARY.unjudged(case)}
        | dict(case.grades)
    )
    found = {
        one.chance
        for seed in range(40)
        for one in Settling.of(BINARY, bound, {"q": whole}, {}, seed).drawn
    }
    assert len(found) <= 1
    for chance in found:
        assert 0 < chance <= 1
        if BINARY.defined(whole):
            assert abs(BINARY.difference(whole).worst - bound) <= chance * (1 + abs(bound)) + 1e-9


def test_what_is_drawn_rests_on_rankings_and_seed_alone() -> None:
    held = world(60, gain=0.1)
    whole = held.judged(held.cases, held.pairs)
    before, after = (
        Settling.of(BINARY, held.bound, cases, {}, 1).drawn for cases in (held.cases, whole)
    )
    assert before == after
    graded = Bounding.of("nDCG@10", (0, 1, 4))
    assert Settling.of(graded, held.bound, held.cases, {}, 1).drawn == before
    assert settling(held, 2).drawn != before
    chances = {one.query_ids[0]: one.chance for one in before}
    hardly, much = (
        [chance for q, chance in chances.items() if int(q[1:]) % 2 == odd] for odd in (1, 0)
    )
    assert np.mean(hardly) < 0.8 * np.mean(much)
    assert len(hardly) < len(much)


def test_pairs_come_query_by_query_and_judging_stops_where_it_is_settled() -> None:
    held = world(120, gain=0.3)
    drawn, cases = settling(held), held.cases
    first = drawn.look(cases, confidence=0.95)
    order = list(dict.fromkeys(query_id for query_id, _ in first.missing))
    assert order == [query_id for one in drawn.drawn for query_id in one.query_ids]
    assert (first.judged, first.mean) == (0, None)
    asked = 0
    while (look := drawn.look(cases, confidence=0.95)).verdict is Verdict.INCONCLUSIVE:
        cases = held.judged(cases, list(look.missing[:10]))
        asked += 10
    assert look.verdict is Verdict.PASS
    assert look.missing == ()
    assert look.judged < look.drawn
    assert asked < len(first.missing)
    assert look.mean is not None
    assert look.mean > held.bound
    every = held.judged(cases, held.pairs)
    assert drawn.look(every, confidence=0.95) == look, "what comes later changes no verdict"


def test_a_query_without_a_relevant_document_says_nothing() -> None:
    held = world(120, gain=0.3)
    none = {q: dict.fromkeys(grades, 0) for q, grades in held.grades.items()}
    nothing = Withheld(BINARY, held.bound, held.cases, none, {})
    look = settling(held).look(nothing.judged(held.cases, held.pairs), confidence=0.95)
    assert (look.verdict, look.judged, look.mean) == (Verdict.INCONCLUSIVE, look.drawn, None)


def test_a_query_counts_by_the_inverse_of_its_probability() -> None:
    """So the mean over draws is that of all queries, though queries that move much are more."""
    held = world(60, gain=0.2)
    whole = held.judged(held.cases, held.pairs)
    true = {q: BINARY.difference(c).worst for q, c in whole.items() if BINARY.defined(c)}
    near = replace(held, bound=float(np.mean(list(true.values()))))
    means: list[float] = []
    for seed in range(60):
        drawn = settling(near, seed)
        look = drawn.look(whole, confidence=0.999_999)
        by = [(true[q], one.chance) for one in drawn.drawn for q in one.query_ids if q in true]
        summed = sum((value - near.bound) / chance for value, chance in by)
        assert look.mean == pytest.approx(near.bound + summed / sum(1 / c for _, c in by))
        means.append(look.mean or 0.0)
    assert np.mean(means) == pytest.approx(near.bound, abs=0.02)
    plain = [
        np.mean([true[q] for one in settling(near, s).drawn for q in one.query_ids if q in true])
        for s in range(60)
    ]
    assert abs(np.mean(plain) - near.bound) > 2 * abs(np.mean(means) - near.bound)


def test_queries_of_a_cluster_are_drawn_together_and_count_once() -> None:
    held = world(60, gain=0.1)
    twins = {query_id: f"c{at // 2}" for at, query_id in enumerate(held.cases)}
    drawn = settling(held, clusters=twins).drawn
    assert {len(one.query_ids) for one in drawn} == {2}
    assert len(drawn) <= 30


@pytest.mark.slow
@pytest.mark.simulation
def test_a_false_verdict_is_rare_however_often_it_is_looked_at(draws: Draws) -> None:
    """The mean over all queries of a world is the bound itself."""
    trials, wrong = draws(20, 400), 0
    for seed in range(trials):
        held = world(150, gain=0.05, seed=seed % 4)
        cases = held.judged(held.cases, held.pairs)
        values = [BINARY.difference(c).worst for c in cases.values() if BINARY.defined(c)]
        drawn = Settling.of(BINARY, float(np.mean(values)), cases, {}, seed)
        wrong += drawn.look(cases, confidence=0.9).verdict is Verdict.PASS
    assert wrong / trials <= 0.05 + 3.1 * (0.05 * 0.95 / trials) ** 0.5


def test_the_table_has_each_order() -> None:
    held = world(60, gain=0.3)
    found = tried(held, 1)
    assert list(found) == ["random", "bounds", "queries", "settle"]
    assert held.passes
    assert Verdict.FAIL not in {said for one in found.values() for said in one.verdicts}
    assert found["bounds"].labels <= found["random"].labels


def test_measures_without_exact_bounds_are_refused() -> None:
    with pytest.raises(UnknownName, match="measure for the order settle named 'AP@k'"):
        Settling.of(Bounding.of("AP@10", (0, 1)), 0.0, {}, {}, 1)


def test_a_scale_reaches_what_a_measure_calls_relevant() -> None:
    assert list(scale_of(Bounding.of("P(rel=2)@10", (0, 1)))) == [0, 1, 2]
    assert list(scale_of(BINARY)) == [0, 1]
