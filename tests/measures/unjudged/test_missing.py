"""Columns of missing judgements say what ``Bounding`` says of each query alone."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.core.records import Qrels
from harness.core.run import Run
from harness.measures.missing_judgements import (
    Missing,
    bounding,
    cases,
    judged_by_relevance,
    missing,
)
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case, run_of

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
        span = wanted.difference(each[query_id])
        assert (found.worst[at], found.best[at]) == pytest.approx(span, abs=1e-12)
        here = [doc for doc, row in zip(found.doc_ids, found.query, strict=True) if row == at]
        assert sorted(here) == list(wanted.unjudged(each[query_id]))
    now = [score(run, qrels, [measure], found.query_ids)[measure] for run in (control, candidate)]
    assert now[0].query_ids == found.query_ids
    np.testing.assert_allclose(found.difference, now[1].values - now[0].values, atol=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_some_hits_together_move_no_more_than_the_sum_of_each(measure: str) -> None:
    """Every set of up to four hits, with every grade: the range of a sample rests on this."""
    control, candidate, qrels = random_pair(3, queries=25)
    found, wanted = missing(control, candidate, qrels, measure), bounding(measure, qrels)
    each = dict(cases(control, candidate, qrels, found.query_ids, wanted.asked.cutoff))
    grades = [grade for grade in wanted.scale if wanted.gain(grade) > 0]
    for at, query_id in enumerate(found.query_ids):
        hits = np.flatnonzero(found.query == at)[:6].tolist()
        before = wanted.as_judged(each[query_id])
        for size in range(1, min(4, len(hits)) + 1):
            for some, given in product(combinations(hits, size), product(grades, repeat=size)):
                case = each[query_id]
                for hit, grade in zip(some, given, strict=True):
                    case = case.with_judged(found.doc_ids[hit], grade)
                change = wanted.as_judged(case) - before
                assert -change <= found.loss[list(some)].sum() + 1e-12
                assert change <= found.gain[list(some)].sum() + 1e-12


def test_one_hit_of_the_highest_grade_is_what_it_costs() -> None:
    """The control's unjudged first hit, were it relevant, halves what the candidate has."""
    control = run_of({"q1": ["new", "x"]}, "old")
    candidate = run_of({"q1": ["x"]}, "new")
    found = missing(control, candidate, qrels_of({"q1": {"x": 1}}), "P@2")
    assert (found.loss.tolist(), found.gain.tolist()) == ([0.5], [0.0])
    assert (found.difference[0], found.worst[0], found.best[0]) == (0.0, -0.5, 0.0)


def test_a_measure_without_bounds_may_be_anything() -> None:
    control = run_of({"q1": ["x", "y"], "q2": ["x"]}, "old")
    candidate = run_of({"q1": ["x", "z"], "q2": ["x"]}, "new")
    qrels = qrels_of({"q1": {"x": 1, "y": 0}, "q2": {"x": 1}})
    found = missing(control, candidate, qrels, "ERR@10")
    assert (found.worst.tolist(), found.best.tolist()) == ([-1.0, 0.0], [1.0, 0.0])
    assert not found.can_be_drawn
    assert missing(control, candidate, qrels, "ERR@1").counts.tolist() == [0, 0]


def test_computed_once_for_the_same_runs_and_judgements() -> None:
    control, candidate, qrels = random_pair(4)
    found = missing(control, candidate, qrels, "nDCG@10")
    assert missing(control, candidate, qrels, "nDCG@10") is found
    assert missing(control, candidate, Qrels(dict(qrels.grades)), "nDCG@10") is not found
    assert missing(candidate, control, qrels, "nDCG@10") is not found


def docs_of(found: Missing, row: int) -> set[str]:
    return {doc for doc, of in zip(found.doc_ids, found.query, strict=True) if of == row}


def test_some_queries_in_another_order() -> None:
    control, candidate, qrels = random_pair(5)
    every = missing(control, candidate, qrels, "nDCG@10")
    ids = every.query_ids[4::-2]
    found = every.of(ids)
    assert isinstance(found, Missing)
    np.testing.assert_array_equal(found.worst, every.worst[4::-2])
    for at, query_id in enumerate(ids):
        assert docs_of(found, at) == docs_of(every, every.query_ids.index(query_id))
    with pytest.raises(EvidenceError, match="query q9 has no nDCG@10"):
        every.of(["q9"])


def test_measures_that_no_judgement_moves() -> None:
    assert judged_by_relevance("nDCG@10")
    assert judged_by_relevance("ERR@10")
    for name in ("Judged@10", "Jaccard@50", "Empty@10", "tau", "NumRet"):
        assert not judged_by_relevance(name), name


def test_many_queries_at_once_are_quick() -> None:
    control, qrels = random_case(3)
    candidate, _ = random_case(4)
    found = missing(control, candidate, qrels, "nDCG@10")
    assert (found.worst <= found.difference + 1e-12).all()
    assert (found.difference <= found.best + 1e-12).all()
