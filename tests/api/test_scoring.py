"""A run is scored query by query, and shown as a table."""

from __future__ import annotations

import pytest

from harness.api.comparison import score
from harness.core.errors import UnknownName
from harness.core.run import Status
from harness.measures.quality import oracle
from tests.api.conftest import QUERIES, Small
from tests.make.runs import qrels_of, run_of


def test_values_are_those_of_the_library(small: Small) -> None:
    measures = ["nDCG@10", "RR@10", "P@2"]
    found = score(small.better, small.qrels, measures)
    theirs = oracle(small.better, small.qrels, measures, QUERIES)
    frame = found.frame()
    assert repr(found) == "better: nDCG@10 0.8770, RR@10 0.8333, P@2 0.5000"
    assert list(frame.columns) == measures
    for name in measures:
        assert frame[name].to_dict() == dict(theirs[name].by_query)


def test_judged_queries_are_asked_where_none_are_named(small: Small) -> None:
    run = run_of({"q00": ["a"], "unjudged": ["a"]})
    found = score(run, small.qrels, ["RR@10"])
    assert found.scores["RR@10"].by_query == {"q00": 1.0}
    assert len(found.scores["RR@10"].undefined["not_asked"]) == len(QUERIES) - 1
    only = score(run, small.qrels, ["RR@10"], queries=["q00", "unjudged"])
    assert only.scores["RR@10"].mean == 1
    assert only.scores["RR@10"].undefined == {"unjudged": ("unjudged",)}


def test_a_failed_query_is_no_number_in_the_frame() -> None:
    qrels = qrels_of({"q1": {"a": 1}, "q2": {"a": 1}})
    run = run_of({"q1": ["a"], "q2": []}, ended={"q2": Status.FAILED})
    found = score(run, qrels, ["RR@10", "P@1"])
    assert found.frame().index.tolist() == ["q1"]
    assert "1 failed" in found._repr_html_()


def test_the_table_is_escaped(small: Small) -> None:
    run = run_of({q: ["a"] for q in QUERIES}, "<script>alert(1)</script>")
    said = score(run, small.qrels, ["nDCG@10"])._repr_html_()
    assert "<script>" not in said
    assert "&lt;script&gt;" in said


def test_an_unknown_measure_is_refused(small: Small) -> None:
    with pytest.raises(UnknownName, match="nDGC"):
        score(small.control, small.qrels, ["nDGC@10"])
