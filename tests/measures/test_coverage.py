"""What became of every query."""

from __future__ import annotations

from dataclasses import fields

import pytest

from harness.core.errors import EvidenceError, InvalidArm
from harness.core.run import Status
from harness.measures.quality import coverage, missing
from tests.make.runs import qrels_of, run_of

RUN = run_of(
    {"hit": ["a"], "none": [], "broke": [], "slow": [], "never": [], "other": ["b"]},
    ended={"broke": Status.FAILED, "slow": Status.TIMED_OUT, "never": Status.NOT_ASKED},
)
QRELS = qrels_of({"hit": {"a": 1}, "none": {"a": 0}, "broke": {"a": 2}, "absent": {"a": 1}})
ASKED = ("absent", "hit", "none", "broke", "slow", "never", "ghost")


def test_each_query_ends_in_one_way_and_is_judged_in_one_way() -> None:
    found = coverage(RUN, QRELS, ASKED)
    assert (found.answered, found.empty) == (("hit",), ("none",))
    assert (found.failed, found.timed_out) == (("broke",), ("slow",))
    assert found.missing == ("absent", "never", "ghost")
    assert found.answerable == ("absent", "hit", "broke")
    assert (found.negative, found.unjudged) == (("none",), ("slow", "never", "ghost"))
    parts = [getattr(found, field.name) for field in fields(found)]
    assert sorted(sum(parts[:5], ())) == sorted(sum(parts[5:], ())) == sorted(ASKED)


def test_missing_counts_judged_queries_only() -> None:
    assert missing(RUN, QRELS, ASKED) == ("absent",)


def test_an_empty_query_set_and_a_repeated_query_are_no_evidence() -> None:
    with pytest.raises(EvidenceError, match="query set is empty"):
        coverage(RUN, QRELS, ())
    with pytest.raises(EvidenceError, match="query hit is in the set twice"):
        coverage(RUN, QRELS, ("none", "hit", "hit"))


def test_an_arm_that_answers_nothing_is_invalid_and_says_why() -> None:
    with pytest.raises(InvalidArm, match=r"arm: none of 2 queries was answered \(broken\)"):
        coverage(RUN, QRELS, ("broke", "slow"))


def test_an_arm_that_finds_nothing_is_valid() -> None:
    assert coverage(run_of({"none": []}), QRELS, ("none",)).empty == ("none",)
