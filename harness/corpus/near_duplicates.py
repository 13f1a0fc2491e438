"""Near duplicates among texts: which share at least half of their letter trigrams with another.

Two engines that differ on a query differ likewise on the same query in slightly other words, so
such queries are not independent. The comparison is exact (Jaccard of sets of trigrams), counts in
whole numbers, and draws nothing: the same texts give the same clusters on every machine, in any
order. A cluster is a star: each text shares half of its trigrams with the first one of its
cluster. Chains, in which the last has nothing of the first, cannot come about. Evidence for the
bound and for the star: docs/decisions/0018.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

GRAM = 3
"""Characters that are compared as one."""
LEAST = 0.5
"""Jaccard from which on a text is a near duplicate; the code below counts in whole numbers."""
WORD = re.compile(r"\w+")
CELLS_AT_ONCE = 1 << 22
"""Most pairs of texts that are counted at once."""

Codes = NDArray[np.int64]


def stars(texts: Sequence[str]) -> Codes:
    """Give for each text the place of the first one of its cluster, shape (texts,).

    Shorter texts come first, equally long ones in the order of their characters. Each joins the
    cluster whose first text it is most like, if it is like one, and else opens its own.
    """
    if not texts:
        return np.zeros(0, dtype=np.int64)
    place: dict[str, int] = {}
    plain = [normalised(text) for text in texts]
    owner = {text: at for at, text in reversed(list(enumerate(plain)))}
    grams = {
        text: np.array([place.setdefault(g, len(place)) for g in trigrams(text)], dtype=np.int32)
        for text in owner
    }
    ordered = sorted(grams, key=lambda text: (len(grams[text]), text))
    first = _first_of([grams[text] for text in ordered], len(place))
    leader = {text: owner[ordered[own]] for text, own in zip(ordered, first.tolist(), strict=True)}
    return np.array([leader[text] for text in plain], dtype=np.int64)


def normalised(text: str) -> str:
    """Leave the words of a text, caseless; the whole text where it has none."""
    return " ".join(WORD.findall(text.casefold())) or text.strip()


def trigrams(text: str) -> frozenset[str]:
    """Give the runs of three characters of a text between two spaces."""
    padded = f" {text} "
    last = max(1, len(padded) - GRAM + 1)
    return frozenset(padded[at : at + GRAM] for at in range(last))


def _first_of(sets: Sequence[NDArray[np.int32]], grams: int) -> Codes:
    """Place of each set's leader, in the order of ``sets``, which is from small to large."""
    from scipy.sparse import csr_array

    sizes = np.array([len(one) for one in sets], dtype=np.int64)
    named, ends = np.concatenate(sets), np.concatenate([[0], np.cumsum(sizes)])
    ones = np.ones(len(named), dtype=np.int32)
    table = csr_array((ones, named, ends), shape=(len(sets), grams))
    rows = max(1, CELLS_AT_ONCE // len(sets))
    leader = np.arange(len(sets))
    for start in range(0, len(sets), rows):
        stop = min(start + rows, len(sets))
        # A set of fewer than half as many grams shares less than half of all.
        least = int(np.searchsorted(2 * sizes, sizes[start]))
        before = least + np.flatnonzero(leader[least:start] == np.arange(least, start))
        among = np.concatenate([before, np.arange(start, stop)])
        shared = (table[start:stop] @ table[among].T).tocoo()
        row, other = start + shared.row, among[shared.col]
        both = sizes[row] + sizes[other]
        near = (other < row) & (3 * shared.data >= both)
        row, other, count, both = row[near], other[near], shared.data[near], both[near]
        best_first = np.lexsort((other, -count / (both - count), row))
        for one, its in zip(row[best_first].tolist(), other[best_first].tolist(), strict=True):
            if leader[one] == one and leader[its] == its:
                leader[one] = its
    return leader
