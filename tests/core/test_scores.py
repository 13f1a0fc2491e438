"""Scores of queries, and pairs of them by id."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import EvidenceError, MismatchedQueries
from harness.core.scores import Paired, Scores


def scores(
    values: Mapping[str, float],
    undefined: Mapping[str, Sequence[str]] | None = None,
    measure: str = "nDCG@10",
) -> Scores:
    gone = {why: tuple(ids) for why, ids in (undefined or {}).items()}
    return Scores(measure, tuple(values), np.array(list(values.values()), dtype=float), gone)


def test_a_mean_is_of_what_is_defined() -> None:
    assert scores({"a": 1.0, "b": 0.0}, {"failed": ["c"]}).mean == 0.5
    assert scores({}, {"failed": ["c"]}).mean is None


def test_a_slice_keeps_order_and_reasons() -> None:
    some = scores({"a": 1.0, "b": 2.0, "c": 3.0}, {"failed": ["d", "e"]}).only(["e", "c", "a", "x"])
    assert some.by_query == {"a": 1.0, "c": 3.0}
    assert some.query_ids == ("a", "c")
    assert some.undefined == {"failed": ("e",)}
    assert some.measure == "nDCG@10"


def test_a_slice_of_nothing_is_empty() -> None:
    none = scores({"a": 1.0}).only([])
    assert none.mean is None
    assert none.query_ids == ()


def test_pairs_go_by_id_and_not_by_place() -> None:
    paired = Paired.of(
        scores({"a": 0.1, "b": 0.2, "c": 0.3}), scores({"c": 1.3, "a": 1.1, "b": 1.2})
    )
    assert paired.query_ids == ("a", "b", "c")
    assert paired.difference == pytest.approx([1.0, 1.0, 1.0])
    assert paired.unpaired == ()


def test_a_query_that_one_arm_has_no_value_for_is_lost_and_not_zero() -> None:
    control = scores({"a": 1.0, "b": 0.5}, {"failed": ["c"], "negative_query": ["n"]})
    candidate = scores({"c": 1.0, "b": 0.5}, {"timed_out": ["a"], "negative_query": ["n"]})
    paired = Paired.of(control, candidate)
    assert paired.query_ids == ("b",)
    assert paired.difference.tolist() == [0.0]
    assert paired.unpaired == ("a", "c")


@pytest.mark.parametrize("why", ["failed", "timed_out", "not_asked"])
def test_a_query_that_neither_arm_answered_is_lost_and_no_tie(why: str) -> None:
    control = scores({"a": 1.0}, {why: ["b"], "negative_query": ["n"], "unjudged": ["u"]})
    candidate = scores({"a": 1.0}, {"failed": ["b"], "negative_query": ["n"], "unjudged": ["u"]})
    assert Paired.of(control, candidate).unpaired == ("b",)


def test_other_queries_are_refused_on_either_side() -> None:
    more, fewer = scores({"a": 1.0, "b": 1.0}), scores({"a": 1.0})
    with pytest.raises(MismatchedQueries, match="1 query only on the left, 0 only on the right"):
        Paired.of(more, fewer)
    with pytest.raises(MismatchedQueries, match="0 queries only on the left, 1 only on the right"):
        Paired.of(fewer, more)


def test_other_measures_are_refused() -> None:
    with pytest.raises(EvidenceError, match=r"RR@10 .* nDCG@10"):
        Paired.of(scores({"a": 1.0}, measure="RR@10"), scores({"a": 1.0}))


@given(
    st.dictionaries(st.text(max_size=3), st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=9),
    st.randoms(use_true_random=False),
)
def test_the_order_of_either_side_is_of_no_account(
    values: dict[str, tuple[float, float]], rng: random.Random
) -> None:
    left = {q: pair[0] for q, pair in values.items()}
    right = {q: pair[1] for q, pair in values.items()}
    shuffled = list(right.items())
    rng.shuffle(shuffled)
    paired = Paired.of(scores(left), scores(dict(shuffled)))
    assert paired.query_ids == tuple(values)
    assert paired.difference.tolist() == [b - a for a, b in values.values()]
