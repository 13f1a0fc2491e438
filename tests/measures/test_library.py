"""The oracle and who needs it."""

from __future__ import annotations

import pytest

from harness.measures import quality
from harness.measures.name import parse
from harness.measures.quality import oracle, score
from tests.make.runs import random_case, run_of


def test_values_are_those_of_ir_measures() -> None:
    run, qrels = run_of({"q": ["x", "a"]}), random_case(0)[1]
    grades = type(qrels)({"q": {"a": 1}})
    found = quality.values(run, grades, ("q",), (parse("RR@10"), parse("ERR@10")))
    assert found["RR@10"] == {"q": 0.5}
    assert found["ERR@10"]["q"] == pytest.approx(1 / 32)


def test_a_measure_without_kernel_is_the_same_either_way() -> None:
    run, qrels = random_case(6, lowest=0)
    names = ("ERR@10", "nDCG@10", "IPrec@0.5", "SetP")
    ours, theirs = (f(run, qrels, names, run.query_ids) for f in (score, oracle))
    assert {n: dict(s.by_query) for n, s in ours.items()} == {
        n: dict(s.by_query) for n, s in theirs.items()
    }


def test_only_judged_and_counts_rest_on_judging_alone() -> None:
    names = ("Judged@10", "NumQ", "NumRet", "NumRet(rel=1)", "P@10")
    resting = [quality.rests_on_judging_only(parse(name)) for name in names]
    assert resting == [True, True, True, False, False]
