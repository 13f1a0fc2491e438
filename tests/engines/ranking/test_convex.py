"""Scores added by weight: by hand, and what has to hold of any scores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.ranking import combine

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
