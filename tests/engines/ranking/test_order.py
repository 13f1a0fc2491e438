"""The order of hits and the share of the best."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.ranking import by_best

scored = st.dictionaries(st.text(max_size=4), st.floats(1e-3, 1e6), max_size=12)


def test_a_worked_example() -> None:
    hits = by_best([("b", 2.0), ("c", 8.0), ("a", 2.0), ("d", 4.0)], 3)
    assert [tuple(hit) for hit in hits] == [("c", 1.0, 8.0), ("d", 0.5, 4.0), ("a", 0.25, 2.0)]


def test_nothing_gives_nothing() -> None:
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
