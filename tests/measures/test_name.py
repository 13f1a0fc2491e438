"""Names of measures."""

from __future__ import annotations

import ir_measures
import pytest

from harness.core.errors import HarnessError, UnknownName
from harness.measures.name import COMMON, parse


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
