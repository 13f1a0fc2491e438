"""Places of pairs of query and document in a list of pairs: millions of look-ups in arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MULTIPLIERS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
"""One level of slots each: odd numbers that spread codes over 32 bits (Knuth, vol. 3, 6.4)."""
ROOM = 4
"""Slots for each pair, so that most pairs get the slot they ask for."""
EMPTY = -1
UNKNOWN = -2
"""Stands for a document that no pair has."""


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    bits: int
    """Every query owns 2^bits slots, which lie together: the hits of a query look at few lines."""
    multiplier: np.uint32
    docs: NDArray[np.int32]
    """Shape (queries * 2^bits,): the document in each slot, ``EMPTY`` where there is none."""
    pair: NDArray[np.int32]
    """Shape (queries * 2^bits,): which pair it is of."""

    def slots(self, rows: NDArray[np.int64], docs: NDArray[np.int32]) -> NDArray[np.int64]:
        spread = docs.view(np.uint32) * self.multiplier
        spread >>= np.uint32(32 - self.bits)
        found = rows << self.bits
        found += spread
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Pairs in slots. A pair whose slot is taken goes a level down; at last it is searched for."""

    levels: tuple[_Level, ...]
    keys: NDArray[np.int64]
    """Shape (pairs without a slot,): ``row << 32 | doc``, sorted."""
    pair: NDArray[np.int32]
    """Shape (pairs without a slot,): which pair each is."""

    @classmethod
    def of(cls, rows: NDArray[np.int64], docs: NDArray[np.int32], queries: int) -> Lookup:
        """Take in pairs, each once; ``rows`` from 0 to ``queries`` - 1, ``docs`` from 0."""
        left = np.arange(len(rows), dtype=np.int32)
        levels = []
        for multiplier in MULTIPLIERS:
            if not len(left):
                break
            each = -(-len(left) * ROOM // queries)
            bits = max(1, int(each - 1).bit_length())
            size = queries << bits
            level = _Level(
                bits,
                np.uint32(multiplier),
                np.full(size, EMPTY, dtype=np.int32),
                np.full(size, EMPTY, dtype=np.int32),
            )
            slots = level.slots(rows[left], docs[left])
            level.pair[slots] = left
            level.docs[slots] = docs[level.pair[slots]]
            levels.append(level)
            left = left[level.pair[slots] != left]
        keys = rows[left] << 32 | docs[left]
        order = np.argsort(keys)
        return cls(tuple(levels), keys[order], left[order])

    def find(
        self, rows: NDArray[np.int64], docs: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Places in ``docs`` of the pairs that are known, in order, and which pair each is.

        ``docs`` may hold ``UNKNOWN``, which is in no pair.
        """
        pairs = np.full(len(docs), EMPTY, dtype=np.int32)
        asking = np.arange(len(docs), dtype=np.int64)
        for level in self.levels:
            slots = level.slots(rows, docs)
            stored = level.docs.take(slots)
            same = stored == docs
            here = np.flatnonzero(same)
            pairs[asking.take(here)] = level.pair.take(slots.take(here))
            same |= stored == EMPTY
            further = np.flatnonzero(~same)
            asking, rows, docs = asking.take(further), rows.take(further), docs.take(further)
        if len(self.keys):
            wanted = rows << 32 | docs
            at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            here = np.flatnonzero(self.keys[at] == wanted)
            pairs[asking[here]] = self.pair[at[here]]
        known = np.flatnonzero(pairs != EMPTY)
        return known, pairs.take(known)
