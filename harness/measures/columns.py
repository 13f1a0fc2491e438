"""Judgements as columns, and look-ups of pairs in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import DatasetError
from harness.core.records import Qrels

Rows = NDArray[np.int64]
Codes = NDArray[np.int32]
SPARSE = 4
"""Rows are laid side by side unless that takes more than so many times their own room."""


def repeats(docs: Codes, offsets: Rows) -> bool:
    """Whether any row has a code twice; row i is ``docs[offsets[i] : offsets[i + 1]]``.

    ``docs`` of shape (hits,) holds codes from 0, ``offsets`` of shape (rows + 1,) rises from 0 to
    the number of hits.
    """
    lengths = np.diff(offsets)
    rows, width = len(lengths), int(lengths.max(initial=0))
    if rows * width == len(docs):
        grid = docs.reshape(rows, width)
    elif rows * width <= SPARSE * len(docs):
        grid = np.broadcast_to(-1 - np.arange(width, dtype=np.int32), (rows, width)).copy()
        grid[np.arange(width) < lengths[:, None]] = docs
    else:
        grid = (np.repeat(np.arange(rows), lengths) << 32 | docs)[None]
    told = np.sort(grid, axis=1)
    return bool((told[:, 1:] == told[:, :-1]).any())


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
    docs: Codes
    """Shape (queries * 2^bits,): the document in each slot, ``EMPTY`` where there is none."""
    pair: Codes
    """Shape (queries * 2^bits,): which pair it is of."""

    def slots(self, rows: Rows, docs: Codes) -> Rows:
        spread = docs.view(np.uint32) * self.multiplier
        spread >>= np.uint32(32 - self.bits)
        found = rows << self.bits
        found += spread
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Pairs in slots. A pair whose slot is taken goes a level down; at last it is searched for."""

    levels: tuple[_Level, ...]
    keys: Rows
    """Shape (pairs without a slot,): ``row << 32 | doc``, sorted."""
    pair: Codes
    """Shape (pairs without a slot,): which pair each is."""

    @classmethod
    def of(cls, rows: Rows, docs: Codes, queries: int) -> Lookup:
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

    def find(self, rows: Rows, docs: Codes) -> tuple[Rows, Codes]:
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


KEY_BITS = 63
_last: dict[str, tuple[ref[Qrels], EncodedQrels]] = {}


@dataclass(frozen=True, eq=False)
class EncodedQrels:
    """Pairs of query and document with their grades: by query, the best grade first."""

    query_ids: tuple[str, ...]
    vocabulary: Sequence[str]
    """Every judged document once; ``docs`` are codes into it."""
    rows: Rows
    """Shape (pairs,): rising positions in ``query_ids``."""
    docs: Codes
    """Shape (pairs,)."""
    grades: Codes
    """Shape (pairs,): falling within a query."""
    place: Rows
    """Shape (pairs,): of each within its query, from 0; its rank in the ideal ranking."""

    def __len__(self) -> int:
        """Count the judged queries."""
        return len(self.query_ids)

    @classmethod
    def of(cls, qrels: Qrels) -> EncodedQrels:
        """Encode judgements; the latest are cached, because every arm needs them."""
        if (kept := _last.get("qrels")) is not None and kept[0]() is qrels:
            return kept[1]
        judged = qrels.grades
        each = np.fromiter(map(len, judged.values()), dtype=np.int64, count=len(judged))
        flat = list(chain.from_iterable(judged.values()))
        vocabulary = tuple(dict.fromkeys(flat))
        code = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        grades = chain.from_iterable(docs.values() for docs in judged.values())
        coded = cls.of_columns(
            tuple(judged),
            vocabulary,
            np.repeat(np.arange(len(judged), dtype=np.int64), each),
            np.fromiter(map(code.__getitem__, flat), dtype=np.int32, count=len(flat)),
            np.fromiter(grades, dtype=np.int32, count=len(flat)),
        )
        _last["qrels"] = ref(qrels), coded
        return coded

    @classmethod
    def of_columns(
        cls,
        query_ids: tuple[str, ...],
        vocabulary: Sequence[str],
        rows: Rows,
        docs: Codes,
        grades: Codes,
    ) -> EncodedQrels:
        """Sort pairs; the columns have shape (pairs,)."""
        order = _best_first(rows, grades)
        rows, docs, grades = rows[order], docs[order], grades[order]
        first = np.searchsorted(rows, np.arange(len(query_ids) + 1))
        if repeats(docs, first):
            pairs = np.sort(rows << 32 | docs)
            row, doc = divmod(int(pairs[:-1][pairs[1:] == pairs[:-1]][0]), 1 << 32)
            raise DatasetError(
                f"{vocabulary[doc]} is judged twice for query {query_ids[row]};"
                " keep one of the two rows"
            )
        place = np.arange(len(rows), dtype=np.int64) - first[rows]
        return cls(query_ids, vocabulary, rows, docs, grades, place)

    @cached_property
    def lookup(self) -> Lookup:
        """Index of pairs, built at first use."""
        return Lookup.of(self.rows, self.docs, len(self))

    @cached_property
    def code(self) -> Mapping[str, int]:
        """Code of each judged document."""
        return dict(zip(self.vocabulary, range(len(self.vocabulary)), strict=True))

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Position of each judged query."""
        return {query_id: at for at, query_id in enumerate(self.query_ids)}

    def translation(self, vocabulary: Sequence[str]) -> Codes:
        """Our code of each document of another vocabulary, shape (that vocabulary,)."""
        ours = map(self.code.get, vocabulary, repeat(UNKNOWN))
        return np.fromiter(ours, dtype=np.int32, count=len(vocabulary))

    def relevant(self, rel: int) -> Rows:
        """Documents of grade ``rel`` or above, shape (queries,); counted once."""
        found = self._relevant.get(rel)
        if found is None:
            counted = np.bincount(self.rows[self.grades >= rel], minlength=len(self))
            found = self._relevant[rel] = counted.astype(np.int64, copy=False)
            found.flags.writeable = False
        return found

    @cached_property
    def _relevant(self) -> dict[int, Rows]:
        return {}


def _best_first(rows: Rows, grades: Codes) -> Rows:
    """Order by row, the best grade first, equal ones as they came; shape (pairs,)."""
    worse = grades.max(initial=0) - grades.astype(np.int64)
    place = len(rows).bit_length()
    grade = int(worse.max(initial=0)).bit_length()
    if int(rows.max(initial=0)).bit_length() + grade + place > KEY_BITS:
        return np.lexsort((worse, rows))
    keys: Rows = (rows << grade | worse) << place | np.arange(len(rows))
    keys.sort()
    keys &= (1 << place) - 1
    return keys
