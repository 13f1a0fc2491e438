"""Means of queries, and how sure they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.measures.name import SHARE
from harness.measures.quality import summarise, summarise_each
from harness.stats.inference import Inference
from harness.stats.interval import interval
from tests.make.runs import scores_of

SURE: dict[str, Any] = {
    "span": SHARE,
    "inference": Inference(confidence=0.95, resamples=400, seed=7),
}


def test_summary_is_the_interval_of_the_values() -> None:
    scores = scores_of({f"q{at}": at / 10 for at in range(10)})
    estimate = summarise(scores, **SURE, clusters={})
    assert estimate == interval(scores.values, **SURE, clusters=None)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.value == pytest.approx(0.45)
    assert estimate.n == 10


def test_many_are_summarised_as_each_alone() -> None:
    whole = {f"q{at}": at / 10 for at in range(10)}
    part = {q: 1 - of for q, of in whole.items() if q != "q3"}
    sure = {name: of for name, of in SURE.items() if name != "span"}
    clusters = {"q1": "a", "q2": "a", "q7": "b", "q8": "b"}
    asked = [
        (scores_of(whole), SHARE),
        (scores_of(part), SHARE),
        (scores_of({q: of**2 for q, of in whole.items()}), SHARE),
        (scores_of(whole), None),
        (scores_of(whole), SHARE._replace(least=-1.0)),
    ]
    estimates = summarise_each(asked, **sure, clusters=clusters)
    alone = [summarise(of, **{**SURE, "span": span}, clusters=clusters) for of, span in asked]
    assert estimates == tuple(alone)
    assert len({(one.low, one.high) for one in estimates}) == len(asked)


def test_queries_of_one_intent_are_drawn_together() -> None:
    scores = scores_of({"a": 0.0, "b": 0.1, "c": 0.9, "d": 1.0, "e": 0.5})
    intents = {"a": "low", "b": "low", "c": "high", "d": "high", "elsewhere": "high"}
    estimate = summarise(scores, **SURE, clusters=intents)
    codes = np.array([0, 0, 1, 1, 2], dtype=np.int64)
    assert estimate == interval(scores.values, **SURE, clusters=codes)


def test_an_intent_is_no_query_id() -> None:
    scores = scores_of({"a": 0.0, "b": 0.4, "c": 1.0})
    estimate = summarise(scores, **SURE, clusters={"a": "b"})
    alone = summarise(scores, **SURE, clusters={})
    assert estimate == alone


def test_one_query_has_no_interval_without_a_span() -> None:
    with pytest.raises(EvidenceError):
        summarise(scores_of({"a": 0.3}), **SURE | {"span": None}, clusters={})
