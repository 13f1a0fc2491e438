"""Fusion by reciprocal rank and by convex combination, and the order of hits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_engines.ranking import by_best, combine, fuse

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


HALVES = {"l": 0.5, "s": 0.5}
IDS = st.sampled_from("abcdefgh")
SCORES = st.dictionaries(IDS, st.floats(-1, 40, width=32), max_size=8)


def shown(words: dict[str, float], vectors: dict[str, float], share: float) -> list[str]:
    hits = combine({"l": words, "s": vectors}, {"l": 1 - share, "s": share}, 10)
    return [hit.doc_id for hit in hits]


def test_by_hand() -> None:
    hits = combine({"l": {"a": 8.0, "b": 4.0}, "s": {"b": 0.9, "c": 0.3}}, HALVES, 10)
    assert [hit.doc_id for hit in hits] == ["b", "a", "c"]
    assert [hit.score for hit in hits] == pytest.approx(
        [0.5 * 4 / 8 + 0.5, 0.5, 0.5 * 0.3 / 0.9], abs=1e-9
    )


def test_how_far_apart_scores_are_counts_which_ranks_forget() -> None:
    near = {"a": 1.0, "b": 0.99}
    far = {"b": 1.0, "a": 0.2}
    assert shown(near, far, 0.5) == ["b", "a"]
    assert shown(far, near, 0.5) == ["b", "a"]


@pytest.mark.parametrize(("share", "first"), [(0.0, "a"), (0.3, "a"), (0.7, "b"), (1.0, "b")])
def test_a_share_decides(share: float, first: str) -> None:
    assert shown({"a": 3.0, "b": 0.6}, {"b": 0.8, "a": 0.16}, share)[0] == first


def test_a_score_below_zero_counts_as_none() -> None:
    assert shown({"a": 1.0}, {"a": -0.5, "b": -0.1}, 0.5) == ["a"]
    hits = combine({"l": {"a": 1.0}, "s": {"a": -0.5, "b": -0.1, "c": 0.5}}, HALVES, 10)
    assert [(hit.doc_id, hit.score) for hit in hits] == [("a", 0.5), ("c", 0.5)]


def test_equal_sums_go_by_document_id() -> None:
    assert shown({"b": 2.0, "a": 2.0}, {"b": 0.5, "a": 0.5}, 0.5) == ["a", "b"]


def test_nothing_found_is_nothing_shown() -> None:
    assert combine({"l": {}, "s": {}}, HALVES, 5) == ()


@pytest.mark.parametrize("weights", [{"l": 0.5, "s": 0.6}, {"l": -0.5, "s": 1.5}])
def test_weights_that_are_no_shares_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares of 1"):
        combine({"l": {"a": 1.0}, "s": {}}, weights, 5)


@given(SCORES, SCORES, st.floats(0, 1, width=16))
def test_scores_are_shares_and_the_first_k_are_the_best(
    words: dict[str, float], vectors: dict[str, float], share: float
) -> None:
    weights = {"l": 1 - share, "s": share}
    everything = combine({"l": words, "s": vectors}, weights, 100)
    assert all(0 <= hit.score <= 1 + 1e-9 for hit in everything)
    assert [hit.score for hit in everything] == sorted((h.score for h in everything), reverse=True)
    assert combine({"l": words, "s": vectors}, weights, 3) == everything[:3]


@given(SCORES, SCORES, st.floats(0.125, 128, width=32))
def test_the_unit_of_a_score_does_not_matter(
    words: dict[str, float], vectors: dict[str, float], unit: float
) -> None:
    scaled = {doc_id: score * unit for doc_id, score in words.items()}
    one = {hit.doc_id: hit.score for hit in combine({"l": words, "s": vectors}, HALVES, 100)}
    other = {hit.doc_id: hit.score for hit in combine({"l": scaled, "s": vectors}, HALVES, 100)}
    kept = set(one) & set(other)
    assert all(one[doc_id] == pytest.approx(other[doc_id], abs=1e-6) for doc_id in kept)
    assert all(one.get(d, 0) < 1e-6 and other.get(d, 0) < 1e-6 for d in set(one) ^ set(other))


scored = st.dictionaries(st.text(max_size=4), st.floats(1e-3, 1e6), max_size=12)


def test_a_worked_example() -> None:
    hits = by_best([("b", 2.0), ("c", 8.0), ("a", 2.0), ("d", 4.0)], 3)
    assert [tuple(hit) for hit in hits] == [("c", 1.0, 8.0), ("d", 0.5, 4.0), ("a", 0.25, 2.0)]


def test_nothing_gives_nothing_of_order() -> None:
    assert by_best([], 5) == ()


def test_a_best_of_zero_is_no_share_of_anything() -> None:
    assert [hit.score for hit in by_best([("a", 0.0), ("b", 0.0)], 5)] == [0.0, 0.0]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_ties_at_the_last_place_go_by_id(k: int) -> None:
    hits = by_best([("é", 1.0), ("z", 1.0), ("10", 1.0), ("9", 1.0)], k)
    assert [hit.doc_id for hit in hits] == ["10", "9", "z"][:k]


@given(scored, st.integers(1, 15), st.randoms(use_true_random=False))
def test_any_order_in_gives_one_order_out(
    pairs: dict[str, float], k: int, rng: random.Random
) -> None:
    shuffled = list(pairs.items())
    rng.shuffle(shuffled)
    hits = by_best(shuffled, k)
    assert hits == by_best(pairs.items(), k)
    assert len(hits) == min(k, len(pairs))
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.raw_score for hit in hits] == sorted(pairs.values(), reverse=True)[:k]
