"""Unjudged documents: bounds, by query and in columns."""

import gc
from itertools import combinations, product
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.core.records import Qrels
from harness.core.run import Run
from harness.measures import missing_judgements
from harness.measures.completion_bounds import Bounding, Case
from harness.measures.missing_judgements import bounding, cases, missing, narrowing
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case, run_of
from tests.thinned import examples

EXACT = (
    "nDCG@3", "nDCG@5", "nDCG", "nDCG(dcg='exp-log2')@3", "RR@3", "RR", "RR(rel=2)@3",
    "P@3", "P(rel=2)@3", "R@3", "R(rel=2)@5",
)  # fmt: skip
DOCUMENTS = "abcdefgh"


@st.composite
def a_case(draw: st.DrawFn) -> Case:
    """Two short rankings of which few documents are unjudged; all grades up to 2 are known."""
    control, candidate = (
        tuple(draw(st.lists(st.sampled_from(DOCUMENTS), max_size=5, unique=True))) for _ in "ab"
    )
    shown = sorted({*control, *candidate})
    unjudged = set(draw(st.lists(st.sampled_from(DOCUMENTS), max_size=5)))
    grades = {d: draw(st.integers(-1, 2)) for d in shown if d not in unjudged}
    return Case(control, candidate, {**grades, "x": 2, "y": draw(st.integers(0, 2))})


def span(wanted: Bounding, case: Case) -> tuple[float, float]:
    """Smallest and largest difference candidate - control of a case."""
    found = wanted.of_cases([case])
    return float(found.worst[0]), float(found.best[0])


def tried(measure: str, wanted: Bounding, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Score control and candidate under every way to judge what was not judged."""
    unjudged = wanted.unjudged(case)
    ways = [
        {**case.grades, **dict(zip(unjudged, given, strict=True))}
        for given in product(wanted.scale, repeat=len(unjudged))
    ]
    ids = [f"q{at:05}" for at in range(len(ways))]
    qrels = Qrels(dict(zip(ids, ways, strict=True)))
    control, candidate = (
        score(run_of(dict.fromkeys(ids, shown)), qrels, [measure], ids)[measure].values
        for shown in (case.control, case.candidate)
    )
    return control, candidate


@pytest.mark.slow
@pytest.mark.parametrize("measure", EXACT)
@settings(max_examples=examples(100), deadline=None)
@given(case=a_case())
def test_bounds_are_those_of_all_completions(measure: str, case: Case) -> None:
    wanted = Bounding.of(measure, (0, 1, 2))
    control, candidate = tried(measure, wanted, case)
    values = candidate - control
    np.testing.assert_allclose(span(wanted, case), (values.min(), values.max()), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["AP@3", "AP@5", "AP", "AP(rel=2)@5"])
@settings(max_examples=examples(100), deadline=None)
@given(case=a_case())
def test_bounds_of_average_precision_are_exact_for_an_arm_and_hold_for_the_difference(
    measure: str, case: Case
) -> None:
    wanted = Bounding.of(measure, (0, 1, 2))
    control, candidate = tried(measure, wanted, case)
    for shown, values in ((case.control, control), (case.candidate, candidate)):
        found = wanted.average_precision(case, shown)
        np.testing.assert_allclose(found, (values.min(), values.max()), rtol=0, atol=1e-12)
    worst, best = span(wanted, case)
    assert worst <= (candidate - control).min() + 1e-12
    assert best >= (candidate - control).max() - 1e-12


def test_a_shared_document_moves_both_arms() -> None:
    """Both show the same one unjudged document first: whatever it is, nobody gains by it."""
    case = Case(("a",), ("a",), {"x": 1})
    assert span(Bounding.of("P@1", (0, 1)), case) == (0.0, 0.0)
    assert span(Bounding.of("P@1", (0, 1)), case._replace(candidate=())) == (-1.0, 0.0)


def test_the_most_decisive_pair_is_the_one_that_parts_the_arms_most() -> None:
    control = run_of({"q1": ["a", "b", "s"], "q2": ["x"]}, "old")
    candidate = run_of({"q1": ["c", "b", "s"], "q2": ["x"]}, "new")
    qrels = qrels_of({"q1": {"x": 1}, "q2": {"x": 1}})
    found = narrowing(control, candidate, qrels, "nDCG@3", ["q1", "q2"])
    order = sorted(found, key=lambda pair: -found[pair])
    assert {pair[0] for pair in order} == {"q1"}
    assert {doc for _, doc in order[:2]} == {"a", "c"}
    first = narrowing(control, candidate, qrels, "P@1", ["q1", "q2"])
    assert first == pytest.approx({("q1", "a"): 0.5, ("q1", "c"): 0.5})


def test_a_pair_narrows_by_what_its_lowest_and_highest_grade_do() -> None:
    control, candidate, qrels = random_pair(4, queries=12)
    ids = missing(control, candidate, qrels, "nDCG@3").query_ids

    def width(judged: Qrels) -> float:
        found = missing(control, candidate, judged, "nDCG@3").of(ids)
        return float((found.best - found.worst).mean())

    pairs = narrowing(control, candidate, qrels, "nDCG@3", ids)
    for (query_id, doc_id), narrower in list(pairs.items())[:8]:
        ends = [
            width(qrels_of({**qrels.grades, query_id: {**qrels.grades[query_id], doc_id: grade}}))
            for grade in (0, 2)
        ]
        assert narrower == pytest.approx(width(qrels) - sum(ends) / 2)


def test_judging_what_is_named_closes_the_bounds() -> None:
    control, qrels = random_case(5, queries=6, depth=8)
    candidate, _ = random_case(6, queries=6, depth=8)
    ids = qrels.query_ids
    for _ in range(200):
        found = narrowing(control, candidate, qrels, "nDCG@5", ids)
        if not found:
            break
        query_id, doc_id = max(found, key=lambda pair: found[pair])
        qrels = qrels_of({**qrels.grades, query_id: {**qrels.grades[query_id], doc_id: 1}})
    left = missing(control, candidate, qrels, "nDCG@5").of(ids)
    np.testing.assert_allclose(left.worst, left.best, atol=1e-9)


MEASURES = (
    "nDCG@3", "nDCG@10", "nDCG", "nDCG(dcg='exp-log2')@5", "RR@3", "RR(rel=2)@5", "RR",
    "P@3", "P(rel=2)@5", "R@5", "R(rel=2)@10", "AP@5",
)  # fmt: skip


def random_pair(seed: int, queries: int = 40) -> tuple[Run, Run, Qrels]:
    """Two runs over few documents, of which about half are judged, with grades up to 2."""
    rng = np.random.default_rng(seed)
    docs = [f"d{at}" for at in range(12)]
    lists: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    grades: dict[str, dict[str, int]] = {}
    for at in range(queries):
        query_id = f"q{at:03}"
        for one in lists:
            one[query_id] = [docs[d] for d in rng.permutation(12)[: rng.integers(0, 8)]]
        known = rng.permutation(12)[: rng.integers(1, 10)]
        grades[query_id] = {docs[d]: int(rng.integers(-1, 3)) for d in known}
    return run_of(lists[0], "old"), run_of(lists[1], "new"), qrels_of(grades)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", [1, 2])
def test_columns_are_the_bounds_of_each_query(measure: str, seed: int) -> None:
    control, candidate, qrels = random_pair(seed)
    found, wanted = missing(control, candidate, qrels, measure), bounding(measure, qrels)
    each = dict(cases(control, candidate, qrels, found.query_ids, wanted.asked.cutoff))
    for at, query_id in enumerate(found.query_ids):
        ends = span(wanted, each[query_id])
        assert (found.worst[at], found.best[at]) == pytest.approx(ends, abs=1e-12)
        here = [doc for doc, row in zip(found.doc_ids, found.query, strict=True) if row == at]
        assert sorted(here) == list(wanted.unjudged(each[query_id]))
    now = [score(run, qrels, [measure], found.query_ids)[measure] for run in (control, candidate)]
    assert now[0].query_ids == found.query_ids
    np.testing.assert_allclose(found.difference, now[1].values - now[0].values, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("measure", MEASURES)
def test_some_hits_together_move_no_more_than_the_sum_of_each(measure: str) -> None:
    """Every set of up to four hits, with every grade: the range of a sample rests on this."""
    control, candidate, qrels = random_pair(3, queries=15)
    found, wanted = missing(control, candidate, qrels, measure), bounding(measure, qrels)
    each = dict(cases(control, candidate, qrels, found.query_ids, wanted.asked.cutoff))
    grades = [grade for grade in wanted.scale if wanted.gain(grade) > 0]
    for at, query_id in enumerate(found.query_ids):
        hits = np.flatnonzero(found.query == at)[:6].tolist()
        (before,) = wanted.of_cases([each[query_id]]).difference
        for size in range(1, min(4, len(hits)) + 1):
            for some, levels in product(combinations(hits, size), product(grades, repeat=size)):
                case = each[query_id]
                for hit, grade in zip(some, levels, strict=True):
                    case = case._replace(grades={**case.grades, found.doc_ids[hit]: grade})
                change = float(wanted.of_cases([case]).difference[0] - before)
                assert -change <= found.loss[list(some)].sum() + 1e-12
                assert change <= found.gain[list(some)].sum() + 1e-12


def test_a_measure_without_bounds_may_be_anything() -> None:
    control = run_of({"q1": ["x", "y"], "q2": ["x"]}, "old")
    candidate = run_of({"q1": ["x", "z"], "q2": ["x"]}, "new")
    qrels = qrels_of({"q1": {"x": 1, "y": 0}, "q2": {"x": 1}})
    found = missing(control, candidate, qrels, "ERR@10")
    assert (found.worst.tolist(), found.best.tolist()) == ([-1.0, 0.0], [1.0, 0.0])
    assert not found.can_be_drawn
    assert missing(control, candidate, qrels, "ERR@1").counts.tolist() == [0, 0]


def test_runs_that_were_compared_both_ways_are_let_go() -> None:
    control, candidate, qrels = random_pair(0)
    once = missing(control, candidate, qrels, "nDCG@10")
    assert missing(control, candidate, qrels, "nDCG@10") is once
    missing(candidate, control, qrels, "nDCG@10")
    missing(control, control, qrels, "nDCG@10")
    runs = [ref(control), ref(candidate)]
    del control, candidate
    gc.collect()
    assert [run() for run in runs] == [None, None]


def test_some_queries_in_another_order() -> None:
    control, candidate, qrels = random_pair(5)
    every = missing(control, candidate, qrels, "nDCG@10")
    ids = every.query_ids[4::-2]
    found = every.of(ids)
    np.testing.assert_array_equal(found.worst, every.worst[4::-2])
    for at, query_id in enumerate(ids):
        there, here = every.query == every.query_ids.index(query_id), found.query == at
        assert set(np.array(found.doc_ids)[here]) == set(np.array(every.doc_ids)[there])
    with pytest.raises(EvidenceError, match="query q9 has no nDCG@10"):
        every.of(["q9"])


def test_measures_that_no_judgement_moves() -> None:
    assert missing_judgements.judged_by_relevance("nDCG@10")
    assert missing_judgements.judged_by_relevance("ERR@10")
    for name in ("Judged@10", "Jaccard@50", "Empty@10", "tau", "NumRet"):
        assert not missing_judgements.judged_by_relevance(name), name
