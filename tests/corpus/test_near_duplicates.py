"""Which queries put one need in other words."""

from __future__ import annotations

import random
from fractions import Fraction
from time import process_time
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.corpus import clusters as corpus_clusters
from harness.corpus.clusters import LEAST_JUDGED, LEAST_WORDS, Wording, stars, wording

WORDS = st.lists(st.sampled_from(("alpha", "beta", "gamma", "7", "not", "the")), max_size=5)
DOCUMENTS = st.frozensets(st.sampled_from("pqrstuvwxyz"), max_size=6)
QUERIES = st.lists(st.tuples(WORDS.map(" ".join), DOCUMENTS), max_size=14)
PAIRS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=5)
Given = list[tuple[str, frozenset[str]]]
Pairs = list[tuple[int, int]]


def clusters(given_: Given, pairs: Pairs) -> set[frozenset[int]]:
    """Give the places of each cluster."""
    pairs = [(a, b) for a, b in pairs if max(a, b) < len(given_)]
    firsts = stars([text for text, _ in given_], [docs for _, docs in given_], pairs).tolist()
    assert all(firsts[first] == first for first in firsts)
    return {frozenset(at for at, it in enumerate(firsts) if it == own) for own in set(firsts)}


def by_hand(given_: Given, pairs: Pairs) -> set[frozenset[int]]:
    """Do the same, each wording beside every leader, as the first lines of the module say it."""
    places: dict[str, list[int]] = {}
    for at, (text, _) in enumerate(given_):
        places.setdefault(wording(text).signature, []).append(at)

    def of(sign: str) -> Wording:
        return wording(given_[places[sign][0]][0])

    def one_need(a: str, b: str) -> bool:
        if of(a).parted(of(b)):
            return False
        if any({x, y} & {*places[a]} and {x, y} & {*places[b]} for x, y in pairs):
            return True
        like = of(a).like(of(b))
        sets = [(given_[x][1], given_[y][1]) for x in places[a] for y in places[b]]
        return any(
            p and q and Fraction(len(p & q), len(p | q)) >= LEAST_JUDGED
            and like >= float(LEAST_WORDS[len(p & q) == 1])
            for p, q in sets
        )  # fmt: skip

    stars_: dict[str, list[str]] = {}
    for sign in sorted(places, key=lambda it: (len(of(it).words), it)):
        near = [leader for leader in stars_ if one_need(sign, leader)]
        best = max((of(sign).like(of(leader)) for leader in near), default=None)
        leader = next((it for it in near if of(sign).like(of(it)) == best), sign)
        stars_.setdefault(leader, []).append(sign)
    return {frozenset(at for sign in own for at in places[sign]) for own in stars_.values()}


@given(QUERIES, PAIRS, st.sampled_from((0, 2, 32)))
def test_clusters_are_those_found_by_hand(given_: Given, pairs: Pairs, few: int) -> None:
    with mock.patch.object(corpus_clusters, "FEW", few):
        found = clusters(given_, pairs)
    assert found == by_hand(given_, [p for p in pairs if max(p) < len(given_)])


@given(QUERIES, PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_queries_changes_no_cluster(
    given_: Given, pairs: Pairs, dice: random.Random
) -> None:
    order = list(range(len(given_)))
    dice.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    pairs = [pair for pair in pairs if max(pair) < len(given_)]
    moved = clusters([given_[at] for at in order], [(place[a], place[b]) for a, b in pairs])
    assert {frozenset(order[at] for at in own) for own in moved} == clusters(given_, pairs)


ONE, TWO, FIVE = frozenset("p"), frozenset("pq"), frozenset("pqrst")


@pytest.mark.parametrize(
    ("other", "docs", "own", "clustered"),
    [
        ("febrile seizures reduce the threshold for epilepsy", TWO, TWO, 1),
        ("febrile seizures reduce the threshold for epilepsy", ONE, ONE, 1),
        ("fever and epilepsy, seizures", ONE, ONE, 2),
        ("fever and epilepsy, seizures", TWO, TWO, 1),
        ("fever and epilepsy, seizures", ONE, TWO, 2),
        ("fever and epilepsy, seizures", FIVE, FIVE - ONE, 1),
        ("fever and epilepsy, seizures", FIVE, TWO, 2),
        ("febrile seizures do not increase the threshold for epilepsy", TWO, TWO, 2),
        ("febrile seizures increase the threshold for epilepsy 2", TWO, TWO, 2),
        ("treatment of a cold", TWO, TWO, 2),
    ],
)
def test_judged_documents_join_texts_that_are_alike(
    other: str, docs: frozenset[str], own: frozenset[str], clustered: int
) -> None:
    text = "Febrile seizures increase the threshold for epilepsy"
    assert len(clusters([(text, docs), (other, own)], [])) == clustered


def test_a_pair_of_a_model_is_one_need_unless_names_or_numbers_differ() -> None:
    alike = [("cheap flights to Paris", ONE), ("low cost airfare to paris", TWO)]
    assert len(clusters(alike, [])) == 2
    assert len(clusters(alike, [(0, 1)])) == 1
    numbered = [("iphone 12", ONE), ("iphone 13", TWO)]
    assert len(clusters(numbered, [(0, 1)])) == 2


def test_a_chain_is_no_cluster() -> None:
    """Each is alike the next one, and the last has nothing of the first."""
    words = [f"word{chr(97 + at // 26)}{chr(97 + at % 26)}x" for at in range(40)]
    chain = [(" ".join(words[at : at + 6]), TWO) for at in range(34)]
    found = clusters(chain, [])
    assert max(map(len, found)) <= 9
    assert found == by_hand(chain, [])


def test_a_text_joins_the_first_one_that_it_is_most_like() -> None:
    less, more = ("alpha bravo wind", TWO), ("bravo charlie delta echo", TWO)
    both = ("alpha bravo charlie delta echo", TWO)
    assert clusters([less, more, both], []) == {frozenset({0}), frozenset({1, 2})}


def test_no_text_has_no_cluster() -> None:
    assert stars([]).tolist() == []


@pytest.mark.slow
def test_ten_times_as_many_queries_take_little_more_time_each() -> None:
    """All have words and documents in common with many others, and few are one need."""
    dice = random.Random(3)
    words = [f"{a}{b}{c}" for a in "bdfgklmnp" for b in ("ar", "el", "in", "om") for c in "adgknt"]

    def seconds(count: int) -> float:
        texts = [" ".join(dice.choices(words, k=4)) for _ in range(count)]
        docs = [frozenset(f"d{dice.randrange(count)}" for _ in range(3)) for _ in range(count)]
        start = process_time()
        stars(texts, docs)
        return (process_time() - start) / count

    assert min(seconds(30_000) for _ in range(2)) < 2 * min(seconds(3_000) for _ in range(3))
