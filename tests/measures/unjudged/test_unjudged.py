"""``harness.measures.unjudged``: bounds are those of trying every completion."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import EvidenceError, UnknownName
from harness.core.records import Qrels
from harness.measures.completion_bounds import Bounding, Case, average_precision
from harness.measures.missing_judgements import missing, narrowing
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case, run_of

EXACT = (
    "nDCG@3", "nDCG@5", "nDCG", "nDCG(dcg='exp-log2')@3", "RR@3", "RR", "RR(rel=2)@3",
    "P@3", "P(rel=2)@3", "R@3", "R(rel=2)@5",
)  # fmt: skip
MOST_UNJUDGED = 5
DOCUMENTS = "abcdefgh"


@st.composite
def a_case(draw: st.DrawFn) -> Case:
    """Two short rankings of which few documents are unjudged; all grades up to 2 are known."""
    control, candidate = (
        tuple(draw(st.lists(st.sampled_from(DOCUMENTS), max_size=5, unique=True))) for _ in "ab"
    )
    shown = sorted({*control, *candidate})
    unjudged = set(draw(st.lists(st.sampled_from(DOCUMENTS), max_size=MOST_UNJUDGED)))
    grades = {d: draw(st.integers(-1, 2)) for d in shown if d not in unjudged}
    return Case(control, candidate, {**grades, "x": 2, "y": draw(st.integers(0, 2))})


def completions(wanted: Bounding, case: Case) -> list[dict[str, int]]:
    """Every way to judge what was not judged."""
    unjudged = wanted.unjudged(case)
    return [
        {**case.grades, **dict(zip(unjudged, given, strict=True))}
        for given in product(wanted.scale, repeat=len(unjudged))
    ]


def tried(measure: str, wanted: Bounding, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Score control and candidate under every completion."""
    ways = completions(wanted, case)
    ids = [f"q{at:05}" for at in range(len(ways))]
    qrels = Qrels(dict(zip(ids, ways, strict=True)))
    asked = [
        score(run_of(dict.fromkeys(ids, shown)), qrels, [measure], ids)[measure].by_query
        for shown in (case.control, case.candidate)
    ]
    control, candidate = (np.array([found[q] for q in ids]) for found in asked)
    return control, candidate


@pytest.mark.slow
@pytest.mark.parametrize("measure", EXACT)
@settings(max_examples=40, deadline=None)
@given(case=a_case())
def test_bounds_are_those_of_all_completions(measure: str, case: Case) -> None:
    wanted = Bounding.of(measure, (0, 1, 2))
    control, candidate = tried(measure, wanted, case)
    for found, values in (
        (wanted.control(case), control),
        (wanted.candidate(case), candidate),
        (wanted.difference(case), candidate - control),
    ):
        np.testing.assert_allclose(found, (values.min(), values.max()), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["AP@3", "AP@5", "AP", "AP(rel=2)@5"])
@settings(max_examples=40, deadline=None)
@given(case=a_case())
def test_bounds_of_average_precision_are_exact_for_an_arm_and_hold_for_the_difference(
    measure: str, case: Case
) -> None:
    wanted = Bounding.of(measure, (0, 1, 2))
    control, candidate = tried(measure, wanted, case)
    for found, values in ((wanted.control(case), control), (wanted.candidate(case), candidate)):
        np.testing.assert_allclose(found, (values.min(), values.max()), rtol=0, atol=1e-12)
    difference = wanted.difference(case)
    assert difference.worst <= (candidate - control).min() + 1e-12
    assert difference.best >= (candidate - control).max() - 1e-12


def test_a_shared_document_moves_both_arms() -> None:
    """Both show the same one unjudged document first: whatever it is, nobody gains by it."""
    case = Case(("a",), ("a",), {"x": 1})
    wanted = Bounding.of("P@1", (0, 1))
    assert wanted.control(case) == wanted.candidate(case) == (0.0, 1.0)
    assert wanted.difference(case) == (0.0, 0.0)


def test_the_ideal_moves_with_the_judgements() -> None:
    """A relevant document that the arm itself does not show makes its nDCG smaller."""
    found = Bounding.of("nDCG@2", (1,)).control(Case(("x",), ("a",), {"x": 1}))
    assert found == pytest.approx((1 / (1 + 1 / np.log2(3)), 1.0))


def test_a_ratio_by_hand() -> None:
    wanted, case = Bounding.of("R@2", (0, 1)), Case(("u",), ("a", "v"), {"a": 1, "y": 1})
    assert (wanted.as_judged(case), wanted.difference(case)) == (1 / 2, (0.0, 2 / 3))
    assert wanted.defined(case)
    assert not wanted.defined(case._replace(grades={"a": 0}))


def test_average_precision_by_hand() -> None:
    found = average_precision(["a", "b"], {"b": True}, {"a", "elsewhere"})
    assert found == pytest.approx((1 / 4, 1.0))


def test_the_most_decisive_pair_is_the_one_that_parts_the_arms_most() -> None:
    control = run_of({"q1": ["a", "b", "s"], "q2": ["x"]}, "old")
    candidate = run_of({"q1": ["c", "b", "s"], "q2": ["x"]}, "new")
    qrels = qrels_of({"q1": {"x": 1}, "q2": {"x": 1}})
    found = narrowing(control, candidate, qrels, "nDCG@3", ["q1", "q2"])
    order = sorted(found, key=lambda pair: -found[pair])
    assert {pair[0] for pair in order} == {"q1"}
    assert {doc for _, doc in order[:2]} == {"a", "c"}
    assert narrowing(control, candidate, qrels, "P@1", ["q1", "q2"]) == pytest.approx({
        ("q1", "a"): 0.5,
        ("q1", "c"): 0.5,
    })


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


def test_what_has_no_bounds_says_so() -> None:
    with pytest.raises(UnknownName, match="measure with bounds"):
        Bounding.of("Judged@10", (1,))
    run = run_of({"q": ["a"], "r": ["a"]})
    qrels = qrels_of({"q": {"a": 0}, "r": {"a": 1}})
    with pytest.raises(EvidenceError, match="no document answers"):
        missing(run, run, qrels, "RR@10").of(["q"])
    with pytest.raises(EvidenceError, match="was not judged"):
        narrowing(run, run, qrels, "RR@10", ["elsewhere"])
