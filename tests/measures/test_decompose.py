"""``harness.measures.decompose``: parts that sum to the difference, whoever is called control."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.records import Qrels
from harness.measures.decompose import decompose, decompose_way, reordered
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case, run_of

MEASURES = ("nDCG@10", "RR@10", "P@5", "AP@10", "R@20", "nDCG", "nDCG(dcg='exp-log2')@10")
RANKING = st.lists(st.sampled_from("abcdefghij"), max_size=8, unique=True)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_parts_sum_to_the_difference(measure: str) -> None:
    control, qrels = random_case(1)
    candidate, _ = random_case(2)
    ids = qrels.query_ids
    parts = decompose(control, candidate, qrels, measure, ids)
    old, new = (score(run, qrels, [measure], ids)[measure].by_query for run in (control, candidate))
    difference = [new[q] - old[q] for q in parts.query_ids]
    np.testing.assert_allclose(parts.total, difference, rtol=0, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    old=RANKING, new=RANKING, good=st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 3))
)
def test_the_parts_of_any_two_rankings(
    old: list[str], new: list[str], good: dict[str, int]
) -> None:
    qrels = qrels_of({"q": {"elsewhere": 1, **good}})
    control, candidate = run_of({"q": old}), run_of({"q": new})
    parts = decompose(control, candidate, qrels, "nDCG@5", ["q"])
    values = [score(r, qrels, ["nDCG@5"], ["q"])["nDCG@5"].values for r in (control, candidate)]
    np.testing.assert_allclose(parts.total, values[1] - values[0], rtol=0, atol=1e-12)
    back = decompose(candidate, control, qrels, "nDCG@5", ["q"])
    np.testing.assert_allclose(back.shown, -parts.shown, rtol=0, atol=1e-12)
    np.testing.assert_allclose(back.order, -parts.order, rtol=0, atol=1e-12)
    if set(old[:5]) == set(new[:5]):
        assert parts.shown[0] == 0
    if [d for d in old[:5] if d in new[:5]] == [d for d in new[:5] if d in old[:5]]:
        assert parts.order[0] == 0


def test_what_entered_is_told_from_what_rose() -> None:
    """RR@2: b rises from 2 to 1, or enters there."""
    qrels = qrels_of({"q": {"b": 1}})
    rose = decompose(run_of({"q": "ab"}), run_of({"q": "ba"}), qrels, "RR@2", ["q"])
    assert (rose.shown[0], rose.order[0]) == (0, 0.5)
    entered = decompose(run_of({"q": "ac"}), run_of({"q": "bc"}), qrels, "RR@2", ["q"])
    assert (entered.shown[0], entered.order[0]) == (1, 0)


def test_documents_that_stay_take_each_others_places() -> None:
    assert reordered("abcd", "dxbz") == ("a", "d", "c", "b")
    assert reordered("abcd", "") == tuple("abcd")
    assert reordered("", "abcd") == ()


def one_at_a_time(old: list[str], new: list[str], qrels: Qrels) -> tuple[float, float]:
    """Give shown and order by going both ways by hand, on plain lists."""

    def value(docs: Sequence[str]) -> float:
        return float(score(run_of({"q": docs}), qrels, ["nDCG@5"], ["q"])["nDCG@5"].values[0])

    def in_order_of(docs: list[str], other: list[str]) -> list[str]:
        shared = [d for d in other if d in docs]
        return [shared.pop(0) if d in other else d for d in docs]

    old, new = old[:5], new[:5]
    first_shown = value(in_order_of(new, old)) - value(old)
    first_order = value(in_order_of(old, new)) - value(old)
    shown = (first_shown + value(new) - value(in_order_of(old, new))) / 2
    return shown, (first_order + value(new) - value(in_order_of(new, old))) / 2


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    rankings=st.lists(RANKING, min_size=2, max_size=5),
    good=st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 3)),
)
def test_all_parts_of_a_way_sum_to_the_difference(
    rankings: list[list[str]], good: dict[str, int]
) -> None:
    qrels = qrels_of({"q": {"elsewhere": 1, **good}})
    control, *way = (run_of({"q": ranking}) for ranking in rankings)
    parts = decompose_way(control, way, qrels, "nDCG@5", ["q"])
    ends = [score(run, qrels, ["nDCG@5"], ["q"])["nDCG@5"].values for run in (control, way[-1])]
    total = sum(part.total[0] for part in parts)
    np.testing.assert_allclose(total, (ends[1] - ends[0])[0], rtol=0, atol=1e-12)
    by_hand = [one_at_a_time(old, new, qrels) for old, new in pairwise(rankings)]
    assert [(part.shown[0], part.order[0]) for part in parts] == [
        pytest.approx(pair, rel=0, abs=1e-12) for pair in by_hand
    ]


def test_the_step_that_did_it_is_named() -> None:
    """The words lose b, the fusion brings it back below, and the reranker lifts it."""
    qrels = qrels_of({"q": {"b": 1}})
    way = [run_of({"q": docs}) for docs in ("ac", "ab", "ba")]
    parts = decompose_way(run_of({"q": "ba"}), way, qrels, "RR@2", ["q"])
    assert [(part.shown[0], part.order[0]) for part in parts] == [(-1, 0), (0.5, 0), (0, 0.5)]
