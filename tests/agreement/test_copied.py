"""A run that was copied from another one shares what two engines do not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from harness.agreement.copied import FEWEST_FIRST, FEWEST_HITS, FIRST, LONG, Copied, copied
from harness.core.engine import Hit
from harness.core.run import Row, Run, Status

QUERIES, HITS = 40, 30
Score = Callable[[random.Random, int], float]
Ranked = list[list[Hit]]


def bm25(rng: random.Random, rank: int) -> float:
    return -20 / (rank + 1) - rng.random() * 1e-3


def fused(_: random.Random, rank: int) -> float:
    return 1 / (60 + rank)


def ranked(seed: int, score: Score = bm25) -> Ranked:
    """Rank thirty documents of its own for each query; scores as an engine gives them."""
    rng = random.Random(seed)
    shown = []
    for query in range(QUERIES):
        hits = [Hit(f"d{query}-{at}", 1.0, score(rng, at)) for at in range(HITS)]
        shown.append(hits)
    return shown


def run(rankings: Ranked) -> Run:
    rows = [Row(f"q{at}", Status.ANSWERED, hits, "me") for at, hits in enumerate(rankings)]
    return Run.of("arm", rows)


def test_a_copy_is_equal_in_both() -> None:
    found = copied(run(ranked(1)), run(ranked(1)))
    assert found == Copied(QUERIES * HITS, QUERIES * HITS, QUERIES, QUERIES, QUERIES, QUERIES)
    assert found.too_alike
    assert found.said.startswith("1,200 of 1,200 shared hits have one score to the last bit, 40 of")


def test_two_engines_are_not() -> None:
    """The same documents for every query, in an order of its own and with scores of its own."""
    rng = random.Random(7)
    other = ranked(2)
    for hits in other:
        rng.shuffle(hits)
    found = copied(run(ranked(1)), run(other))
    assert (found.equal, found.hits, found.lists) == (0, QUERIES * HITS, QUERIES)
    assert not found.too_alike


def scaled(hits: list[Hit]) -> list[Hit]:
    return [hit._replace(raw_score=hit.raw_score * 1.0001) for hit in hits]


def swapped(hits: list[Hit]) -> list[Hit]:
    return [hits[1], hits[0], *hits[2:]]


def junk(hits: list[Hit]) -> list[Hit]:
    return hits[len(hits) // 2 :]


@pytest.mark.parametrize(
    ("perturb", "near"), [(scaled, 40), (lambda hits: scaled(swapped(hits)), 40), (swapped, 40)]
)
def test_a_perturbed_copy_is_still_near(
    perturb: Callable[[list[Hit]], list[Hit]], near: int
) -> None:
    found = copied(run(ranked(1)), run([perturb(hits) for hits in ranked(1)]))
    assert found.near == near
    assert found.too_alike


def test_a_copy_that_shows_junk_for_a_tenth_of_the_queries_is_still_one() -> None:
    other = [junk(hits) if at % 10 == 0 else hits for at, hits in enumerate(ranked(1))]
    found = copied(run(ranked(1)), run(other))
    assert found.equal == found.hits > 1000
    assert found.too_alike


def test_scores_that_many_hits_have_say_nothing() -> None:
    found = copied(run(ranked(1, fused)), run(ranked(1, fused)))
    assert found.hits == 0
    assert found.near == QUERIES


def test_short_lists_and_few_hits_say_nothing() -> None:
    short = [hits[: LONG - 1] for hits in ranked(1)][: FEWEST_HITS // LONG]
    found = copied(run(short), run(short))
    assert found.lists == 0
    assert found.equal == found.hits < FEWEST_HITS
    assert not found.too_alike
    assert not found.known


def tail_shuffled(hits: list[Hit]) -> list[Hit]:
    tail = scaled(hits[FIRST:])
    random.Random(3).shuffle(tail)
    return [*scaled(hits[:FIRST]), *tail]


@pytest.mark.parametrize(
    "perturb",
    [
        tail_shuffled,
        lambda hits: scaled(hits[: LONG - 1]),
        lambda hits: scaled(hits[:FEWEST_FIRST]),
    ],
)
def test_a_copy_is_seen_by_its_first_hits(perturb: Callable[[list[Hit]], list[Hit]]) -> None:
    """Cut short of a long list, or with another order below the first ten, and other scores."""
    found = copied(run(ranked(1)), run([perturb(hits) for hits in ranked(1)]))
    assert found.equal == found.near == 0
    assert found.same == found.heads == QUERIES
    assert found.too_alike


def test_lists_of_a_few_hits_cannot_tell_a_copy() -> None:
    short = [scaled(hits[: FEWEST_FIRST - 1]) for hits in ranked(1)]
    found = copied(run(ranked(1)), run(short))
    assert found.heads == found.lists == 0
    assert not found.too_alike
    assert not found.known


def test_queries_in_another_order_are_matched_by_id() -> None:
    first = run(ranked(1))
    assert copied(first, Run.of("arm", list(first.rows())[::-1])) == copied(first, first)


def test_nothing_shared_is_nothing_copied() -> None:
    other = [[hit._replace(doc_id=f"x{hit.doc_id}") for hit in hits] for hits in ranked(1)]
    assert copied(run(ranked(1)), run(other)) == Copied(0, 0, QUERIES, 0, QUERIES, 0)
