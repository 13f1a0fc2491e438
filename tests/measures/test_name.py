"""A measure by its name: gains, range, and a loss in words."""

from __future__ import annotations

import ir_measures
import pytest

from harness.core.engine import Hit
from harness.core.errors import DatasetError, HarnessError, UnknownName
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.measures.name import (
    COMMON,
    LARGEST,
    as_gains,
    floor_in_words,
    gain_in_words,
    loss_in_words,
    parse,
    share_in_words,
    span_of,
    span_of_difference,
)
from harness.measures.quality import score


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nDCG@10", ir_measures.nDCG @ 10),
        ("MRR@10", ir_measures.RR @ 10),
        ("P(rel=2)@5", ir_measures.P(rel=2) @ 5),
        ("AP", ir_measures.AP),
        ("nDCG(dcg='exp-log2')", ir_measures.nDCG(dcg="exp-log2")),
        ("nDCG(gains={0: 0, 1: 3}, judged_only=True)@3", None),
        ("IPrec@0.1", ir_measures.IPrec @ 0.1),
        ("Bpref", ir_measures.Bpref),
    ],
)
def test_reads_what_ir_measures_writes(name: str, wanted: ir_measures.Measure | None) -> None:
    if wanted is None:
        wanted = ir_measures.nDCG(gains={0: 0, 1: 3}, judged_only=True) @ 3
    assert parse(name) == wanted
    assert parse(name).params == wanted.params


def test_reads_every_common_name() -> None:
    assert {parse(name).NAME for name in COMMON} == {"nDCG", "RR", "P", "R", "AP", "Judged"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nDGC@10",
        "nDCG@",
        "nDCG@0",
        "nDCG@True",
        "nDCG@'ten'",
        "nDCG@-1",
        "P",
        "P(5)",
        "P(relevance=2)@5",
        "AP(rel=0)@10",
        "nDCG(gains={0: 0.5})@10",
        "nDCG(dcg='exp-log2', gains={0: 0})@10",
        "'nDCG'@10",
        "nDCG@10; print()",
        "__import__('os').getcwd()",
    ],
)
def test_an_unknown_name_lists_the_common_ones_and_a_hint(name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        parse(name)
    message = str(caught.value)
    assert repr(name) in message
    assert all(common in message for common in COMMON)
    assert "Measure(key=value)@cutoff" in message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ndcg@10", "nDCG@10"),
        ("NDCG(dcg='exp-log2')@7x", "nDCG(dcg='exp-log2')@7x"),
        ("judged@5", "Judged@5"),
        ("rr@10", "RR@10"),
        ("nDGC@10", "nDCG@10"),
    ],
)
def test_a_name_that_is_nearly_one_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(UnknownName) as caught:
        parse(name)
    assert str(caught.value).endswith(f"Did you mean {meant}?")


@pytest.mark.parametrize(
    "name", ["alpha_nDCG@10", "\u03b1_nDCG(alpha=0.5)@5", "ERR_IA@20", "MAP_IA", "P_IA@5"]
)
def test_a_measure_over_subtopics_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(HarnessError, match="needs judgements by subtopic") as told:
        parse(name)
    assert str(told.value).startswith(name)


def test_exponential_gains_are_written_out() -> None:
    measure = as_gains(ir_measures.nDCG(dcg="exp-log2") @ 10, (-1, 0, 1, 2, 3))
    assert measure.params == {"gains": {-1: 0, 0: 0, 1: 1, 2: 3, 3: 7}, "cutoff": 10}


def test_given_gains_are_kept_and_never_negative() -> None:
    measure = as_gains(ir_measures.nDCG(gains={1: 5, 2: -3}), (0, 1, 2, 3))
    assert measure.params == {"gains": {0: 0, 1: 5, 2: 0, 3: 3}}


@pytest.mark.parametrize("measure", [ir_measures.nDCG @ 10, ir_measures.AP @ 100])
def test_linear_measures_are_returned_as_they_are(measure: ir_measures.Measure) -> None:
    assert as_gains(measure, (0, 1, 2)) is measure


@pytest.mark.parametrize(
    ("measure", "grade"),
    [
        (ir_measures.nDCG @ 10, LARGEST + 1),
        (ir_measures.AP, LARGEST + 1),
        (ir_measures.nDCG(dcg="exp-log2"), 21),
        (ir_measures.nDCG(gains={1: LARGEST + 1}), 1),
    ],
)
def test_gains_that_trec_eval_miscounts_are_refused(
    measure: ir_measures.Measure, grade: int
) -> None:
    with pytest.raises(DatasetError, match="smaller integers"):
        as_gains(measure, (0, grade))
    as_gains(ir_measures.nDCG(dcg="exp-log2"), (0, 20))


@pytest.mark.parametrize(
    ("measure", "loss", "said"),
    [
        ("nDCG@10", 0.02, "one query in 50 loses its whole first page"),
        ("nDCG@20", 0.03, "about one query in 33 loses its whole first 20"),
        ("AP", 0.05, "one query in 20 loses its whole list"),
        ("RR@10", 0.02, "one query in 25 has its first relevant document at rank 2, not 1"),
        ("R@50", 0.02, "one relevant document in 50 is no longer in the first 50"),
        ("Success@5", 0.1, "one query in 10 has no relevant document left in its first 5"),
        ("P@10", 0.02, "one query in 5 has one relevant document less in 10"),
        ("Judged@10", 0.1, "each query has 1 judged document less in 10"),
        ("Empty@10", 0.2, "each query has 2 empty places less in 10"),
        ("nDCG@10", 0.8, "about every query loses its whole first page"),
        ("infAP", 0.02, "one query in 50 loses all of its infAP"),
    ],
)
def test_a_loss_is_said_as_queries(measure: str, loss: float, said: str) -> None:
    assert loss_in_words(measure, loss) == said


def run(*rows: tuple[str, ...]) -> Run:
    """Give a query for each row of documents."""
    asked = [
        Row(
            f"q{at:02}",
            Status.ANSWERED,
            tuple(Hit(d, 1.0 / n, 1.0 / n) for n, d in enumerate(row, 1)),
            "e",
        )
        for at, row in enumerate(rows)
    ]
    return Run.of("arm", asked)


@pytest.mark.parametrize(
    ("measure", "before", "after", "queries", "loss"),
    [
        ("nDCG@10", ("r",), ("x",), 50, 0.02),
        ("RR@10", ("r", "x"), ("x", "r"), 25, 0.02),
        ("P@10", ("r", "x"), ("y", "x"), 5, 0.02),
    ],
)
def test_the_words_cost_the_margin(
    measure: str, before: tuple[str, ...], after: tuple[str, ...], queries: int, loss: float
) -> None:
    """One query in so many changes as the words say, and the mean falls by the margin."""
    ids = [f"q{at:02}" for at in range(queries)]
    qrels = Qrels({query: {"r": 1} for query in ids})
    means = [
        score(run(*([before] * (queries - 1)), last), qrels, (measure,), ids)[measure].mean
        for last in (before, after)
    ]
    assert means[0] is not None
    assert means[1] is not None
    assert means[0] - means[1] == pytest.approx(loss)


def test_gains_floors_and_shares_are_said_too() -> None:
    assert gain_in_words("nDCG@10", 0.02).endswith("one query in 50 loses its whole first page")
    assert floor_in_words("Jaccard@50", 0.8) == "of 50 documents in each list 44.4 are shared"
    assert floor_in_words("tau", 0.5) == "each query agrees to 0.5"
    assert share_in_words(0.01) == "one query in 100"


@pytest.mark.parametrize(
    "measure",
    [
        "nDCG@10",
        "nDCG(dcg='exp-log2')@10",
        "RR(rel=2)@10",
        "AP",
        "Jaccard@50",
        "nDCG@10-of-serving",
    ],
)
def test_a_share_lies_between_0_and_1_and_its_difference_between_minus_1_and_1(
    measure: str,
) -> None:
    assert span_of(measure) == (0.0, 1.0)
    assert span_of_difference(measure) == (-1.0, 1.0)


def test_a_correlation_lies_between_minus_1_and_1() -> None:
    assert span_of("tau") == span_of("tauAP") == (-1.0, 1.0)
    assert span_of_difference("tau") == (-2.0, 2.0)


@pytest.mark.parametrize("measure", ["NumRet", "length_difference", "serving_only@10"])
def test_a_count_has_no_greatest_value(measure: str) -> None:
    assert span_of(measure) is None
    assert span_of_difference(measure) is None
