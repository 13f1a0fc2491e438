"""Reciprocal rank fusion against a sum by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.ranking import fuse

rankings = st.dictionaries(
    st.sampled_from(["l", "m", "n"]),
    st.lists(st.sampled_from("abcdefgh"), unique=True),
    min_size=1,
)


def test_a_worked_example_of_fusion() -> None:
    hits = fuse({"l": ["a", "b"], "s": ["b", "c"]}, {"l": 1.0, "s": 1.0}, rrf_k=60, k=10)
    assert [hit.doc_id for hit in hits] == ["b", "a", "c"]
    assert hits[0].raw_score == pytest.approx(1 / 62 + 1 / 61, abs=1e-15)
    assert hits[1].raw_score == pytest.approx(1 / 61, abs=1e-15)
    assert hits[2].raw_score == pytest.approx(1 / 62, abs=1e-15)
    assert hits[0].score == pytest.approx((1 / 62 + 1 / 61) / (2 / 61), abs=1e-12)


def test_a_weight_counts_as_often_as_it_says() -> None:
    hits = fuse({"l": ["a"], "s": ["b"]}, {"l": 1.0, "s": 3.0}, rrf_k=1, k=10)
    assert [(hit.doc_id, hit.raw_score, hit.score) for hit in hits] == [
        ("b", 1.5, 0.75),
        ("a", 0.5, 0.25),
    ]


@pytest.mark.parametrize("rrf_k", [1, 60, 999])
def test_first_everywhere_is_one(rrf_k: int) -> None:
    weights = {"a": 0.3, "b": 0.7, "c": 1.1}
    hits = fuse({leg: ["x", "y"] for leg in weights}, weights, rrf_k=rrf_k, k=1)
    assert hits[0].score == 1.0


def test_ties_go_by_id() -> None:
    hits = fuse({"l": ["z", "a"], "s": ["a", "z"]}, {"l": 1.0, "s": 1.0}, rrf_k=60, k=2)
    assert [hit.doc_id for hit in hits] == ["a", "z"]
    assert hits[0].score == hits[1].score


def test_sums_that_differ_in_their_last_bit_are_a_tie() -> None:
    places = {"a": (1, 7, 2, 3), "b": (7, 2, 3, 1)}
    legs = "lmno"
    rankings = {leg: [f"{leg}{at}" for at in range(1, 8)] for leg in legs}
    for doc_id, ranks in places.items():
        for leg, rank in zip(legs, ranks, strict=True):
            rankings[leg][rank - 1] = doc_id
    first, second = fuse(rankings, dict.fromkeys(legs, 1.0), rrf_k=60, k=2)
    assert (first.doc_id, second.doc_id) == ("a", "b")
    assert first.score == second.score
    assert first.raw_score < second.raw_score, "the sums do differ: nothing else is shown here"


def test_a_silent_leg_adds_nothing_and_lowers_the_share() -> None:
    both = {"l": 1.0, "s": 1.0}
    hits = fuse({"l": ["a"], "s": []}, both, rrf_k=60, k=5)
    assert [(hit.doc_id, hit.score) for hit in hits] == [("a", 0.5)]
    alone = fuse({"l": ["a"]}, both, rrf_k=60, k=5)
    assert [(hit.doc_id, hit.score) for hit in alone] == [("a", 1.0)]
    assert hits[0].raw_score == alone[0].raw_score


def test_a_document_shown_twice_counts_once() -> None:
    weights = {"l": 1.0, "s": 1.0}
    twice = fuse({"l": ["a", "a", "b"], "s": ["b"]}, weights, rrf_k=60, k=5)
    assert twice == fuse({"l": ["a", "b"], "s": ["b"]}, weights, rrf_k=60, k=5)


def test_nothing_gives_nothing() -> None:
    assert fuse({}, {}, rrf_k=60, k=5) == ()
    assert fuse({"l": []}, {"l": 1.0}, rrf_k=60, k=5) == ()


@given(rankings, st.integers(1, 1000), st.integers(1, 10))
def test_the_order_of_the_legs_is_of_no_account(
    given_rankings: dict[str, list[str]], rrf_k: int, k: int
) -> None:
    weights = {"l": 1.0, "m": 0.5, "n": 3.0}
    turned = dict(reversed(given_rankings.items()))
    hits = fuse(given_rankings, weights, rrf_k=rrf_k, k=k)
    assert hits == fuse(turned, weights, rrf_k=rrf_k, k=k)
    order = [(-hit.score, hit.doc_id) for hit in hits]
    assert order == sorted(order)
    assert all(0 < hit.score <= 1 for hit in hits)
    everything = fuse(given_rankings, weights, rrf_k=rrf_k, k=100)
    assert hits == everything[:k]
    assert {hit.doc_id for hit in everything} == {d for r in given_rankings.values() for d in r}
