"""Near duplicates among queries, from Python."""

from __future__ import annotations

import harness
from harness.api.comparison import Inference
from tests.api.conftest import QUERIES, Small


def test_queries_in_nearly_the_same_words_are_one_cluster() -> None:
    texts = {"a": "Set the axis label", "b": "inverse of a matrix", "c": "how to set axis labels"}
    assert harness.near_duplicates(texts) == {"a": "like a", "c": "like a"}


def test_they_widen_an_interval_as_intents_do(small: Small, sure: Inference) -> None:
    texts = {
        q: ["wind over a wing", "laminar boundary layer", "heat of a nozzle"][at % 3]
        for at, q in enumerate(QUERIES)
    }
    groups = harness.near_duplicates(texts)
    runs = small.control, small.worse, small.qrels, "RR@10"
    alone = harness.compare(*runs, sure=sure)
    together = harness.compare(*runs, sure=sure, intents=groups)
    assert together.estimate.low < alone.estimate.low
