"""Agreement is counted twice, so that a wrong comparator is not believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agreement import agree
from harness.core.engine import Hit
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.measures.quality import oracle, score
from harness.pipeline.verify import same_values
from tests.make.crosscheck import crosscheck
from tests.make.runs import random_case

DEPTHS = (3, 10)
LISTS = st.lists(
    st.tuples(*[st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=12)] * 2),
    min_size=1,
    max_size=12,
)


def run(arm: str, rankings: Sequence[Sequence[str]], failed: frozenset[int] = frozenset()) -> Run:
    return Run.of(
        arm,
        [
            Row(f"q{at}", Status.FAILED, error="broken pipe")
            if at in failed
            else Row(f"q{at}", Status.ANSWERED, [Hit(doc, 1.0, 1.0) for doc in docs], "me")
            for at, docs in enumerate(rankings)
        ],
    )


def agreement(control: Run, candidate: Run) -> Agreement:
    return agree(control, candidate, depths=DEPTHS, p=0.9)


def spoilt(found: Agreement, name: str, value: float | None) -> Agreement:
    """Give the first query another value of ``name``, or none."""
    old = found.scores[name]
    if value is None:
        gone = Scores(name, old.query_ids[1:], old.values[1:], {"both_empty": old.query_ids[:1]})
        return replace(found, scores={**found.scores, name: gone})
    values = np.concatenate([[value], old.values[1:]])
    return replace(found, scores={**found.scores, name: replace(old, values=values)})


@given(LISTS, st.frozensets(st.integers(0, 11)))
def test_the_kernels_and_the_textbook_agree(
    lists: list[tuple[list[str], list[str]]], failed: frozenset[int]
) -> None:
    control = run("a", [left for left, _ in lists])
    candidate = run("b", [right for _, right in lists], failed)
    found = agreement(control, candidate)
    crosscheck(control, candidate, found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("Jaccard@3", 0.5), ("Jaccard@10", 0.5), ("tau", 0.0), ("tau", -2.0), ("tau", None)],
)
def test_a_wrong_value_is_named(name: str, value: float | None) -> None:
    control, candidate = run("a", ["abcd", "ab"]), run("b", ["bacdef", "ab"])
    found = spoilt(agreement(control, candidate), name, value)
    with pytest.raises(
        EvidenceError, match=rf"{name} of a and b for query q0 is .* the check gives"
    ):
        crosscheck(control, candidate, found)


def test_a_value_for_two_empty_lists_is_named() -> None:
    control, candidate = run("a", ["", "a"]), run("b", ["", "a"])
    found = agreement(control, candidate)
    same = Scores("Jaccard@3", ("q0", "q1"), np.ones(2), {})
    wrong = replace(found, scores={**found.scores, "Jaccard@3": same})
    with pytest.raises(EvidenceError, match=r"query q0 is 1\.0, but the check gives None"):
        crosscheck(control, candidate, wrong)


def test_quality_is_what_ir_measures_says() -> None:
    control, qrels = random_case(3)
    asked = (("nDCG@10", "RR@10"), control.query_ids)
    same_values("a", score(control, qrels, *asked), oracle(control, qrels, *asked))


@pytest.mark.parametrize("value", [0.123, None])
def test_a_wrong_kernel_is_named(value: float | None) -> None:
    control, qrels = random_case(3, queries=5)
    found = dict(score(control, qrels, ("nDCG@10", "RR@10"), control.query_ids))
    old = found["RR@10"]
    found["RR@10"] = (
        Scores("RR@10", old.query_ids[1:], old.values[1:], {"failed": old.query_ids[:1]})
        if value is None
        else replace(old, values=np.concatenate([[value], old.values[1:]]))
    )
    library = oracle(control, qrels, ("nDCG@10", "RR@10"), control.query_ids)
    with pytest.raises(EvidenceError, match=r"RR@10 of arm for query q0 is .* fix harness.measu"):
        same_values("arm", found, library)
