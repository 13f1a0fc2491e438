"""Two runs, paired by query."""

from __future__ import annotations

import numpy as np
import pytest

from harness.api.comparison import Inference, compare
from harness.core.errors import HarnessError
from harness.core.run import Status
from harness.measures.name import SHARE
from harness.stats.interval import interval
from harness.stats.significance import sign_flip
from tests.api.conftest import QUERIES, Small
from tests.make.runs import run_of


def test_the_numbers_are_those_of_the_report(small: Small, sure: Inference) -> None:
    found = compare(small.control, small.better, small.qrels, "RR@10", sure=sure)
    apart = np.array([0.5 if at % 3 else 0.0 for at in range(len(QUERIES))])
    span = SHARE.differences
    assert found.estimate == interval(apart, span=span, inference=sure, clusters=None)
    assert found.p_value == sign_flip(
        apart, shift=0, alternative="two-sided", resamples=2_000, seed=5, clusters=None
    )
    assert len(found.better) == 20
    assert found.worse == ()
    assert repr(found).startswith("better against control, RR@10: +0.3333 [")


def test_the_greatest_loss_comes_first(small: Small, sure: Inference) -> None:
    control = run_of({"q00": ["b", "a"], "q01": ["a"], "q02": ["b", "c", "a"]}, "control")
    candidate = run_of({"q00": ["b", "c", "a"], "q01": ["b", "a"], "q02": ["a"]}, "candidate")
    asked = ["q00", "q01", "q02"]
    found = compare(control, candidate, small.qrels, "RR@10", sure=sure, queries=asked)
    assert found.worse == ("q01", "q00")
    assert found.better == ("q02",)
    rows = found.frame().to_dict("index")
    assert list(rows) == ["q01", "q00", "q02"]
    assert rows["q01"] == {"control": 1.0, "candidate": 0.5, "difference": -0.5}


def test_queries_of_one_intent_are_drawn_together(small: Small, sure: Inference) -> None:
    intents = {q: f"i{at // 10}" for at, q in enumerate(QUERIES)}
    alone = compare(small.control, small.worse, small.qrels, "RR@10", sure=sure)
    together = compare(small.control, small.worse, small.qrels, "RR@10", sure=sure, intents=intents)
    assert together.estimate.value == alone.estimate.value
    assert together.p_value == 0.25  # three clusters: two of eight choices of signs
    assert alone.p_value < 0.01


def test_a_lost_query_is_told_and_not_counted(small: Small, sure: Inference) -> None:
    rankings = {q: ["a"] for q in QUERIES} | {"q07": []}
    broken = run_of(rankings, "broken", ended={"q07": Status.FAILED})
    found = compare(small.control, broken, small.qrels, "RR@10", sure=sure)
    assert found.paired.unpaired == ("q07",)
    assert found.estimate.n == 29
    assert "1 lost" in found._repr_html_()


def test_one_query_says_nearly_nothing(small: Small, sure: Inference) -> None:
    found = compare(
        small.control, small.better, small.qrels, "RR@10", sure=sure, queries=["q00"]
    ).estimate
    assert found.n == 1
    assert found.low < -0.9
    assert found.high > 0.9


@pytest.mark.parametrize(
    ("words", "said"),
    [({"confidence": 1.0}, "confidence is 1"), ({"resamples": 0}, "resamples is 0")],
)
def test_nobody_is_surer_than_sure(words: dict[str, float], said: str) -> None:
    given = {"confidence": 0.95, "resamples": 1_000, "seed": 1} | words
    with pytest.raises(HarnessError, match=said):
        Inference(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["confidence", "resamples", "seed"])
def test_nothing_has_a_default(name: str) -> None:
    given = {"confidence": 0.95, "resamples": 1_000, "seed": 1}
    del given[name]
    with pytest.raises(TypeError, match=name):
        Inference(**given)  # type: ignore[arg-type]
