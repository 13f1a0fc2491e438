"""Queries that put one need in other words, found in time linear in their number.

Two engines that differ on a query differ likewise on the same need in other words, so such queries
are not independent. Two queries are one need by any of three signs:

1. the same words but for their form, order and spelling, and for words without content;
2. judged documents that are nearly the same, and words that are alike;
3. a pair that a model found (``harness.corpus.similar``).

Different numbers, names, models or negations are different needs by every sign. A cluster is a
star: all of it are one need with its first. Chains, in which the last has nothing of the first,
cannot come about. The same queries give the same clusters on every machine, in any order. Evidence
for the signs and for the star: docs/decisions/0018.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.corpus.wording import VERSION, Wording, wording

LEAST_JUDGED = Fraction(4, 5)
"""Jaccard from which on the relevant documents of two queries are nearly the same."""
LEAST_WORDS = {False: Fraction(1, 3), True: Fraction(1, 2)}
"""Jaccard of words with content beside that; the greater one where one document is all there is."""
FEW = 32
"""Queries of a document that are all compared with each other."""
METHOD = {
    "format": 3,
    "wording": VERSION,
    "least_judged": float(LEAST_JUDGED),
    "least_words": [round(float(least), 4) for least in LEAST_WORDS.values()],
}

Codes = NDArray[np.int64]
Pairs = Iterable[tuple[int, int]]
Key = tuple[str, str]


class _Need(NamedTuple):
    """The queries of one wording."""

    wording: Wording
    judged: set[frozenset[str]]
    """Distinct sets of relevant documents."""

    def spelt(self, wording: Wording) -> _Need:
        """Keep the capital letters that every text has."""
        proper = self.wording.proper & wording.proper
        return self._replace(wording=self.wording._replace(proper=proper))


def stars(
    texts: Sequence[str], judged: Sequence[frozenset[str]] | None = None, pairs: Pairs = ()
) -> Codes:
    """Give for each text the place of the first one of its cluster, shape (texts,).

    ``judged`` are the relevant documents of each text, none where they are unknown; ``pairs`` are
    places of texts that a model found alike. Wordings with fewer words come first. Each joins the
    cluster whose first one it is most like by its words, or opens its own.
    """
    collecting = gc.isenabled()
    gc.disable()  # wordings hold no circles, but millions of them would set the collector to work
    try:
        return _stars(texts, judged, pairs)
    finally:
        if collecting:
            gc.enable()


def _stars(texts: Sequence[str], judged: Sequence[frozenset[str]] | None, pairs: Pairs) -> Codes:
    numbers: dict[str, int] = {}
    needs: list[_Need] = []
    of: list[int] = []
    for at, text in enumerate(texts):
        words = wording(text)
        number = numbers.setdefault(words.signature, len(needs))
        of.append(number)
        if number == len(needs):
            needs.append(_Need(words, set()))
        elif words.proper != needs[number].wording.proper:
            needs[number] = needs[number].spelt(words)
        if judged is not None and judged[at]:
            needs[number].judged.add(judged[at])
    signs = list(numbers)
    ordered = sorted(range(len(needs)), key=lambda it: (len(needs[it].wording.words), signs[it]))
    place = [0] * len(needs)
    for at, number in enumerate(ordered):
        place[number] = at
    near = defaultdict[int, set[int]](set)
    for one, other in pairs:
        a, b = place[of[one]], place[of[other]]
        near[a].add(b)
        near[b].add(a)
    leaders = _leaders([needs[number] for number in ordered], near)
    first: dict[int, int] = {}
    return np.array(
        [first.setdefault(leaders[place[number]], at) for at, number in enumerate(of)],
        dtype=np.int64,
    )


def _leaders(needs: Sequence[_Need], near: dict[int, set[int]]) -> list[int]:
    """Give the place of the leader of each need, its own where it opens a cluster.

    Only leaders are looked up, by a rare relevant document together with a rare word that two
    queries like each other must share (prefix filter: Chaudhuri, Ganti and Kaushik, ICDE 2006).
    """
    documents = Counter(doc for need in needs for docs in need.judged for doc in docs)
    words = Counter(word for need in needs if need.judged for word in need.wording.words)
    known: dict[Key, list[int]] = {}
    leaders: list[int] = []
    for at, need in enumerate(needs):
        keys = set(_keys(need, documents, words))
        others = {other for key in keys for other in known.get(key, ())}
        alike = [other for other in others if _judged_alike(need, needs[other])]
        alike += [
            other
            for other in near.get(at, ())
            if other < at
            and leaders[other] == other
            and not need.wording.parted(needs[other].wording)
        ]
        leader = min(alike, key=lambda it: (-need.wording.like(needs[it].wording), it), default=at)
        leaders.append(leader)
        if leader == at:
            for key in keys:
                known.setdefault(key, []).append(at)
    return leaders


def _judged_alike(one: _Need, other: _Need) -> bool:
    """Tell whether two have nearly the same relevant documents, and words that are alike."""
    if one.wording.parted(other.wording):
        return False
    like = one.wording.like(other.wording)
    return any(
        len(a & b) / len(a | b) >= float(LEAST_JUDGED)
        and like >= float(LEAST_WORDS[len(a & b) == 1])
        for a in one.judged
        for b in other.judged
    )


def _keys(need: _Need, documents: Counter[str], words: Counter[str]) -> Iterator[Key]:
    """Yield a rare document alone where few queries have it, and else with each rare word."""
    for docs in need.judged:
        for doc in _rarest(docs, documents, LEAST_JUDGED):
            if documents[doc] <= FEW:
                yield doc, ""
            else:
                own = _rarest(need.wording.words, words, LEAST_WORDS[False])
                yield from ((doc, word) for word in own)


def _rarest(items: frozenset[str], counts: Counter[str], least: Fraction) -> list[str]:
    """Give the rarest of a set, one of which every set with Jaccard ``least`` to it has too."""
    ordered = sorted(items, key=lambda item: (counts[item], item))
    shared = -(-len(items) * least.numerator // least.denominator)
    return ordered[: len(items) - shared + 1]
