"""Which texts a race times, and on which it warms up: no process has seen what it times.

An engine that keeps answers, or anything that it computed from a text, is quick on a text that it
has seen. A user who types a text for the first time does not gain by that, so first answers are
what is judged, and texts that come again are timed apart. The replay before the race has asked all
texts of the query set. So some come as variants too, which no process has ever asked: an engine
that is slower on those kept answers between processes, in its memory or in any file. Their words
are others of the corpus, as frequent as those of the text, so neither the text nor its words in any
order give the answer. What a process asked is known to the next one and to the next race, so each
process has variants of its own. What is not found: an engine that answers anything at all, quickly,
to what it does not know, for no run has the answers to variants.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from harness.core.digest import of_json
from harness.core.errors import HarnessError
from harness.core.records import Document, Query

HELD_BACK = 5
"""At most one text in so many is held back to warm up on, where there are few."""
READ = 4_000
"""Documents whose words are counted, evenly over the corpus."""
TRIES = 24
"""Documents that are drawn to find words that make no bag of the set."""
LONGER = 2
"""Letters that a word may be longer or shorter than the one that it replaces: an encoder counts."""
WORD = re.compile(r"\w+(?![\w:])")
Bag = frozenset[str]
Key = tuple[Bag, str]
"""Words of a query in any order, and its params."""


class Texts(NamedTuple):
    """The texts of every process of a race."""

    warm: tuple[Query, ...]
    """Asked before, and not timed; none of them is among the others."""
    timed: tuple[Query, ...]
    repeated: tuple[Query, ...]
    """The first of ``timed``, which come a second time."""
    unseen: tuple[Query, ...] = ()
    """Variants of ``repeated`` by the same ids: other words, in no query set."""


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
    No variant is drawn here.

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
    return Texts(tuple(again), tuple(chosen), tuple(chosen[:repeated]))


class Words:
    """Words of a corpus, by how many of its documents hold them."""

    def __init__(self, documents: Iterable[Document], count: int) -> None:
        """Read every so-manieth of ``count`` documents, so that at most ``READ`` are counted."""
        read = islice(documents, 0, None, max(1, -(-count // READ)))
        self._held = [_bag(f"{document.title} {document.text}") for document in read]
        self._documents = Counter(chain.from_iterable(self._held))
        self._alike: dict[int, list[str]] = {}
        for word in sorted(self._documents):
            self._alike.setdefault(self._rank(word), []).append(word)

    def other(self, query: Query, known: Container[Key], rng: random.Random) -> Query | None:
        """Replace the words of a text by others that are as frequent, of one document if it can be.

        A word that no document holds becomes one of its letters in another order. Words before a
        colon stay: they name filters. A text without another bag of words gets one word more. None
        for a corpus without words.
        """
        if not self._alike:
            return None
        own = _bag(query.text)
        best = replace(query, text=f"{query.text} {rng.choice(self._alike[max(self._alike)])}")
        for _ in range(TRIES):
            document = rng.choice(self._held)
            like = partial(self._like, beside=sorted(document - own), own=own, rng=rng)
            variant = replace(query, text=WORD.sub(like, query.text))
            if _key(variant) not in known:
                best = variant
                if all(word in document for word in _bag(best.text) if self._rank(word)):
                    break
        return best

    def _like(
        self, found: re.Match[str], beside: Sequence[str], own: Bag, rng: random.Random
    ) -> str:
        word = found[0]
        rank = self._rank(word.casefold())
        if not rank:
            return "".join(rng.sample(word, len(word)))
        near = [one for one in beside if self._rank(one) == rank]
        near = near or [one for one in self._alike[rank] if one not in own]
        long = [one for one in near if abs(len(one) - len(word)) <= LONGER]
        return rng.choice(long or near) if near else word

    def _rank(self, word: str) -> int:
        """Documents that hold a word, to a factor of two; 0 for a word that none holds."""
        return self._documents[word].bit_length()


def varied(texts: Texts, queries: Sequence[Query], words: Words, order: str) -> Texts:
    """Add a variant of each of ``repeated``, its words drawn by ``order``.

    None of them has the bag of words of a text of ``queries``.
    """
    known, rng = {_key(query) for query in queries}, random.Random(order)
    drawn = [words.other(query, known, rng) for query in texts.repeated]
    return texts._replace(unseen=tuple(variant for variant in drawn if variant))


def _bag(text: str) -> Bag:
    return frozenset(found.casefold() for found in WORD.findall(text))


def _key(query: Query) -> Key:
    return _bag(query.text), of_json(dict(query.params))


def _cluster(query: Query, clusters: Mapping[str, str]) -> tuple[bool, str]:
    own = clusters.get(query.query_id)
    return (False, query.query_id) if own is None else (True, own)


def _text(query: Query) -> str:
    return of_json([" ".join(query.text.casefold().split()), dict(query.params)])
