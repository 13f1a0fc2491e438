"""What rests on the order of equal scores."""

from __future__ import annotations

import pytest

from harness.core.run import Status
from harness.measures.quality import score
from harness.measures.ties import count_ties, tie_sensitivity
from tests.make.runs import qrels_of, random_case, run_of

QRELS = qrels_of({"q": {"c": 1}, "p": {"a": 1}, "negative": {"a": 0}})


def test_ties_are_counted_within_answered_queries() -> None:
    run = run_of(
        {"q": "abcd", "p": "ab", "broke": "ab", "none": ""},
        ended={"broke": Status.FAILED},
        scores={"q": [2.0, 1.0, 1.0, 1.0], "p": [1.0, 0.5], "broke": [1.0, 1.0]},
    )
    found = count_ties(run)
    assert (found.hits, found.tied, found.only_float64) == (6, 3, 0)
    assert found.share == 0.5
    assert count_ties(run_of({})).share is None


def test_c04_what_only_float64_tells_apart_is_counted() -> None:
    """1 + 1e-9 is 1 in float32: no tie here, and one for a reader that keeps scores shorter."""
    run = run_of({"q": "abc"}, scores={"q": [1 + 1e-9, 1.0, 0.5]})
    found = count_ties(run)
    assert (found.tied, found.only_float64) == (0, 2)
    large = count_ties(run_of({"q": "ab"}, scores={"q": [2e300, 1e300]}))
    assert (large.tied, large.only_float64) == (0, 2)


def test_the_three_means_of_a_tie() -> None:
    run = run_of(
        {"q": "abc", "p": "ab", "negative": "ab"},
        scores={"q": [1.0, 1.0, 1.0], "p": [2.0, 1.0], "negative": [1.0, 1.0]},
    )
    found = tie_sensitivity(run, QRELS, ("RR@10", "ERR@10"), run.query_ids)
    assert list(found) == ["RR@10"]
    spread = found["RR@10"]
    assert spread.least.by_query == {"q": pytest.approx(1 / 3), "p": 1.0}
    assert spread.expected.by_query == {"q": pytest.approx((1 + 1 / 2 + 1 / 3) / 3), "p": 1.0}
    assert spread.most.by_query == {"q": 1.0, "p": 1.0}
    assert spread.most.undefined == {"negative_query": ("negative",)}


def test_without_ties_there_is_nothing_between() -> None:
    run, qrels = random_case(2)
    value = score(run, qrels, ("nDCG@10",), run.query_ids)["nDCG@10"].by_query
    spread = tie_sensitivity(run, qrels, ("nDCG@10",), run.query_ids)["nDCG@10"]
    assert spread.least.by_query == spread.most.by_query == value
    assert spread.expected.by_query == pytest.approx(value, abs=1e-12)
