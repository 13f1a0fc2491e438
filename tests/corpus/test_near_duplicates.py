"""Near duplicates among texts."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.corpus import near_duplicates
from harness.corpus.near_duplicates import LEAST, normalised, stars, trigrams

TEXTS = st.lists(st.text("abc d", max_size=8), max_size=12)


def clusters(texts: list[str]) -> set[frozenset[str]]:
    """Give the texts of each cluster."""
    found = defaultdict(set)
    for text, first in zip(texts, stars(texts).tolist(), strict=True):
        found[first].add(text)
    return {frozenset(members) for members in found.values()}


def alike(one: str, other: str) -> Fraction:
    a, b = (trigrams(normalised(text)) for text in (one, other))
    return Fraction(len(a & b), len(a | b))


def by_hand(texts: list[str]) -> set[frozenset[str]]:
    """Do the same, one pair after the other, as the first lines of the module say it."""
    plain = {normalised(text) for text in texts}
    heads: dict[str, set[str]] = {}
    for text in sorted(plain, key=lambda t: (len(trigrams(t)), t)):
        near = [(alike(text, head), head) for head in heads if alike(text, head) >= LEAST]
        best = max((share for share, _ in near), default=None)
        head = next((head for share, head in near if share == best), text)
        heads.setdefault(head, set()).add(text)
    return {frozenset(t for t in texts if normalised(t) in own) for own in heads.values()}


@given(TEXTS)
def test_clusters_are_those_found_by_hand(texts: list[str]) -> None:
    assert clusters(texts) == by_hand(texts)


@given(TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_the_texts_changes_no_cluster(texts: list[str], dice: random.Random) -> None:
    shuffled = list(texts)
    dice.shuffle(shuffled)
    assert clusters(shuffled) == clusters(texts)


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    texts = [" ".join(rng.choices(("set", "the", "axis", "label", "of"), k=4)) for _ in range(150)]
    whole = stars(texts)
    for cells in (1, 400, 1_000):
        monkeypatch.setattr(near_duplicates, "CELLS_AT_ONCE", cells)
        assert np.array_equal(stars(texts), whole)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Set the label for the x-axis", "set the label for the y-axis"),
        ("python check if a variable is iterable", "check if a variable is an array python"),
        ("Ethanol stress lowers the expression of PSP", "Ethanol stress reduces the expression"),
        ("ÜBER uns", "über uns!"),
        ("***", "***"),
    ],
)
def test_one_need_in_other_words_is_one_cluster(one: str, other: str) -> None:
    assert len(clusters([one, other, "something else altogether"])) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("how to round a float to an int in python", "python 2to3 whole directory"),
        ("json.loads", "json.dump"),
        ("***", '"""'),
        ("", "a"),
    ],
)
def test_other_needs_are_not(one: str, other: str) -> None:
    assert len(clusters([one, other])) == 2


def test_a_text_joins_the_first_one_that_it_is_most_like() -> None:
    less, more = "alpha bravo wind", "bravo wind charlie delta"
    both = "alpha bravo wind charlie delta"
    assert LEAST <= alike(less, both) < alike(more, both)
    assert alike(less, more) < LEAST
    assert len(less) < len(more)
    assert clusters([less, more, both]) == {frozenset({less}), frozenset({more, both})}


def test_a_chain_is_no_cluster() -> None:
    """Each is alike the next one, and the last has nothing of the first."""
    words = [f"word{at:03}xyz" for at in range(40)]
    chain = [" ".join(words[at : at + 6]) for at in range(34)]
    assert all(alike(a, b) >= LEAST for a, b in pairwise(chain))
    assert max(map(len, clusters(chain))) <= 5


def test_no_text_has_no_cluster() -> None:
    assert stars([]).tolist() == []
