"""Which texts a race times, and on which it warms up: no process has seen what it times.

An engine that keeps answers, or anything that it computed from a text, is quick on a text that it
has seen. A user who types a text for the first time does not gain by that, so first answers are
what is judged, and texts that come again are timed apart. The replay before the race has asked all
texts of the query set. So some come as variants too, which no process has ever asked: an engine
that is slower on those kept answers between processes. What a process asked is known to the next
one and to the next race, so each process has variants of its own.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.core.digest import of_json
from harness.core.errors import HarnessError
from harness.core.records import Query

HELD_BACK = 5
"""At most one text in so many is held back to warm up on, where there are few."""
ENOUGH = 5
"""Different words, of which there are 119 other orders: more than a set is raced in."""
TRIES = 8
"""Orders that are drawn to find one that is not a text of the set."""


class Texts(NamedTuple):
    """The texts of every process of a race."""

    warm: tuple[Query, ...]
    """Asked before, and not timed; none of them is among the others."""
    timed: tuple[Query, ...]
    repeated: tuple[Query, ...]
    """The first of ``timed``, which come a second time."""
    unseen: tuple[Query, ...] = ()
    """Variants of ``repeated`` by the same ids: their words in another order, and in no query set.

    A text of one word has none, so there may be fewer.
    """


def draw(
    queries: Sequence[Query],
    clusters: Mapping[str, str],
    *,
    timed: int,
    warm: int,
    repeated: int,
    seed: int,
) -> Texts:
    """Draw texts from a query set, seeded, and of each cluster one.

    Two queries that differ in case or space are one text. Queries of one cluster take much the same
    time, so a second one would count as evidence that it is not (docs/decisions/0045).
    ``clusters`` names the cluster of a query by its id; a query that is not in there stands alone.
    Texts come first among ``timed`` that have the most variants; none is drawn here.

    Where there are fewer texts than asked for, a fifth at most is held back for the warm-up, which
    then goes through them again and again.

    Raises:
        HarnessError: there are fewer than two different texts.
    """
    distinct = {_text(query): query for query in reversed(queries)}
    drawn = random.Random(seed).sample(
        sorted(distinct.values(), key=lambda query: query.query_id), len(distinct)
    )
    first = {_cluster(query, clusters): query for query in reversed(drawn)}
    drawn = [query for query in drawn if first[_cluster(query, clusters)] is query]
    if len(drawn) <= 1:
        raise HarnessError(
            f"the query set has {len(drawn)} different texts, near-duplicates counted once, and a"
            " race needs one to time and another to warm up on; add queries"
        )
    few = len(drawn) < timed + warm
    kept = min(warm, max(1, len(drawn) // HELD_BACK)) if few else len(drawn) - timed
    others, chosen = drawn[:kept], drawn[kept:][:timed]
    again = [others[at % len(others)] for at in range(warm)]
    chosen.sort(key=lambda query: _room(query, distinct), reverse=True)
    return Texts(tuple(again), tuple(chosen), tuple(chosen[:repeated]))


def varied(texts: Texts, queries: Sequence[Query], order: str) -> Texts:
    """Add a variant of each of ``repeated`` that has one, its words drawn by ``order``.

    Whatever ``order`` is, the same texts have one. None of them is a text of ``queries``.
    """
    known, rng = {_text(query) for query in queries}, random.Random(order)
    drawn = [_variant(query, known, rng) for query in texts.repeated]
    return texts._replace(unseen=tuple(variant for variant in drawn if variant))


def _room(query: Query, known: Container[str]) -> int:
    """Count the different words of a text that has a variant, up to ``ENOUGH``; else 0."""
    if next(_turned(query, known), None) is None:
        return 0
    return min(ENOUGH, len(set(query.text.casefold().split())))


def _variant(query: Query, known: Container[str], rng: random.Random) -> Query | None:
    """Put the words in an order that is not known; None where no turn of the text is unknown."""
    turned = next(_turned(query, known), None)
    if turned is None:
        return None
    words = query.text.split()
    for _ in range(TRIES):
        variant = replace(query, text=" ".join(rng.sample(words, len(words))))
        if _text(variant) not in known:
            return variant
    return turned


def _turned(query: Query, known: Container[str]) -> Iterator[Query]:
    """Begin the text at each other of its words, where that is not known."""
    words = query.text.split()
    for at in range(1, len(words)):
        variant = replace(query, text=" ".join(words[at:] + words[:at]))
        if _text(variant) not in known:
            yield variant


def _cluster(query: Query, clusters: Mapping[str, str]) -> tuple[bool, str]:
    own = clusters.get(query.query_id)
    return (False, query.query_id) if own is None else (True, own)


def _text(query: Query) -> str:
    return of_json([" ".join(query.text.casefold().split()), dict(query.params)])
