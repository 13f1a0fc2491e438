"""Two functions are compared as two runs are, and what they give wrong is named."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from harness.api.comparison import Inference, compare, near_duplicates
from harness.api.search import EngineComparison, compare_engines, shown_by
from harness.core.errors import BadName, EvidenceError, InvalidArm, RunError
from harness.core.run import Status

WORDS = ["ships", "cars", "trees", "birds", "stones", "rivers", "clouds", "sand", "bread", "glass"]
QUERIES = {f"q{at}": " ".join([word] * 3) for at, word in enumerate(WORDS)}
QRELS = {query_id: {"d1": 1, "d2": 0} for query_id in QUERIES}
MEASURES = ["nDCG@10", "RR"]


def late(_: str) -> list[str]:
    return ["d2", "d1"]


def early(text: str) -> list[tuple[str, float]]:
    return [("d2", 7.0), ("d1", 3.0)] if "cars" in text else [("d1", 7.0), ("d2", 3.0)]


def by_score(_: str) -> dict[str, float]:
    return {"d2": 1.0, "d1": 9.0}


def compared(control: Any, candidate: Any, sure: Inference, **more: Any) -> EngineComparison:  # noqa: ANN401
    return compare_engines(control, candidate, QUERIES, QRELS, MEASURES, sure=sure, **more)


def test_it_is_what_compare_says_of_the_two_runs(sure: Inference) -> None:
    engine_comparison = compared(late, early, sure, names=("old", "new"))
    together = near_duplicates(QUERIES)
    runs = shown_by(late, QUERIES, "old"), shown_by(early, QUERIES, "new")
    for measure in MEASURES:
        same = compare(*runs, QRELS, measure, sure=sure, intents=together)
        assert engine_comparison.differences[measure].estimate == same.estimate
        assert engine_comparison.differences[measure].p_value == same.p_value
    assert (engine_comparison.control.arm, engine_comparison.candidate.arm) == ("old", "new")
    assert engine_comparison.differences["RR"].estimate.value == pytest.approx(0.45)


def test_the_worse_queries_come_with_the_greatest_loss_first(sure: Inference) -> None:
    engine_comparison = compared(by_score, early, sure, intents={})
    assert engine_comparison.worse("RR") == ("q1",)
    assert engine_comparison.differences["RR"].better == ()
    row = engine_comparison.frame().loc["RR"]
    assert (row["control"], row["queries"], row["worse"]) == (1.0, 10, 1)
    assert row["low"] <= row["difference"] == pytest.approx(-0.05)


def test_it_is_frozen_and_shows_itself(sure: Inference) -> None:
    engine_comparison = compared(late, early, sure)
    with pytest.raises(FrozenInstanceError):
        engine_comparison.control = engine_comparison.candidate  # type: ignore[misc]
    assert repr(engine_comparison).startswith("candidate against control, nDCG@10: +")
    assert "<caption" in engine_comparison._repr_html_()
    assert "candidate compared with control" in engine_comparison._repr_html_()


def test_a_query_that_raises_has_no_value_and_is_named(sure: Inference) -> None:
    def fails(text: str) -> list[str]:
        if "birds" in text:
            raise ConnectionError("refused")
        return ["d1"]

    engine_comparison = compared(late, fails, sure)
    (said,) = engine_comparison.failures["candidate"].values()
    assert re.fullmatch(r"ConnectionError: refused \(test_searching\.py:\d+\)", said)
    assert (
        list(engine_comparison.failures["candidate"]),
        engine_comparison.failures["control"],
    ) == (["q3"], {})
    assert engine_comparison.differences["RR"].estimate.n == 9
    assert engine_comparison.differences["RR"].paired.unpaired == ("q3",)
    assert "candidate failed on 1" in repr(engine_comparison)
    assert "candidate failed on 1" in engine_comparison._repr_html_()
    assert engine_comparison.candidate.count(Status.FAILED) == 1


def test_a_generator_that_raises_late_is_a_failed_query(sure: Inference) -> None:
    def fails(text: str) -> Any:  # noqa: ANN401  a generator
        yield "d1"
        if "birds" in text:
            raise TimeoutError

    (said,) = compared(late, fails, sure).failures["candidate"].values()
    assert said.startswith("TimeoutError: (test_searching.py:")


def test_a_function_that_raises_on_every_query_did_not_run(sure: Inference) -> None:
    with pytest.raises(InvalidArm, match="ZeroDivisionError"):
        compared(late, lambda _: 1 / 0, sure)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("d1", "candidate: query q0: gives a str. Return document ids"),
        (None, "gives a NoneType. Return"),
        ([3], "rank 1 is a int"),
        ([("d1", 1.0, "x")], "rank 1 is a tuple"),
        ([("d1", "high")], r"rank 1 is \('d1', 'high'\)"),
        ([(1, 2.0)], r"rank 1 has the number 1\. Give str\(1\)"),
        ([("d1", 1.0), ("d2", 2.0)], "rank 2 scores 2.0, more than the rank before it. Sort"),
        ([("d1", float("nan"))], "a score must be a finite number"),
        ({"d1": float("inf")}, "the score inf of d1 is not a finite number"),
    ],
)
def test_what_is_no_ranking_is_named(given: object, said: str, sure: Inference) -> None:
    with pytest.raises(RunError, match=said):
        compared(late, lambda _: given, sure)


def test_a_document_shown_twice_is_said(sure: Inference) -> None:
    engine_comparison = compared(late, lambda _: ["d1", "d1", "d2"], sure)
    says = "candidate showed a document twice on 10, and only the first place counts"
    assert says in repr(engine_comparison)
    assert says in engine_comparison._repr_html_()


def test_judgements_of_other_queries_are_told_from_missing_ones(sure: Inference) -> None:
    with pytest.raises(EvidenceError, match="queries are named as 'q0', judgements as 'x'"):
        compare_engines(late, late, QUERIES, {"x": {"d1": 1}}, MEASURES, sure=sure)


def test_an_empty_answer_is_an_answer(sure: Inference) -> None:
    engine_comparison = compared(late, lambda _: [], sure)
    assert engine_comparison.differences["RR"].estimate.value == -0.5
    assert engine_comparison.failures["candidate"] == {}


def test_names_and_queries_are_needed(sure: Inference) -> None:
    with pytest.raises(EvidenceError, match="two engines are named a"):
        compared(late, late, sure, names=("a", "a"))
    with pytest.raises(BadName):
        compared(late, late, sure, names=("a", "b c"))
    for queries, measures in (({}, MEASURES), (QUERIES, [])):
        with pytest.raises(EvidenceError, match="nothing to compare"):
            compare_engines(late, late, queries, QRELS, measures, sure=sure)


def test_one_measure_may_be_a_word_and_queries_have_ids(sure: Inference) -> None:
    engine_comparison = compare_engines(late, early, QUERIES, QRELS, "RR", sure=sure)
    assert list(engine_comparison.differences) == ["RR"]
    with pytest.raises(EvidenceError, match="queries is a list; give a mapping of query id"):
        compare_engines(late, early, ["birds"], QRELS, ["RR"], sure=sure)  # type: ignore[arg-type]
