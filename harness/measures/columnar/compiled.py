"""The same look-up in machine code, where numba is installed (the extra ``fast``).

It finds the same pairs, so every value is the same to the last bit. Without numba it is only
slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.measures.columnar.lookup import EMPTY, Lookup

Slots = tuple[NDArray[np.int32], ...]
Probe = Callable[..., int]


@cache
def probe() -> Probe | None:
    """Compile ``walk`` once a process; None where numba is not installed."""
    if find_spec("numba") is None:
        return None
    numba: Any = import_module("numba")
    compiled: Probe = numba.njit(nogil=True, cache=True)(walk)
    return compiled


def find(
    lookup: Lookup,
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    docs: NDArray[np.int32],
    through: Probe,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Places in ``docs`` of the known pairs, in order, and which pair each is.

    ``rows``, ``offsets`` and ``docs`` are those of ``Graded.of_rows``, translated.
    """
    place = np.empty(len(docs), dtype=np.int64)
    pair = np.empty(len(docs), dtype=np.int32)
    levels = lookup.levels
    if not levels:
        return place[:0], pair[:0]
    found = through(
        rows,
        offsets,
        docs,
        np.array([level.bits for level in levels], dtype=np.uint32),
        np.array([level.multiplier for level in levels], dtype=np.uint32),
        tuple(level.docs for level in levels),
        tuple(level.pair for level in levels),
        lookup.keys,
        lookup.pair,
        place,
        pair,
    )
    return place[:found].copy(), pair[:found].copy()


def walk(  # noqa: C901, PLR0917  one loop over plain arrays, as the machine runs it
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    docs: NDArray[np.int32],
    bits: NDArray[np.uint32],
    multipliers: NDArray[np.uint32],
    slots: Slots,
    pairs: Slots,
    keys: NDArray[np.int64],
    of_key: NDArray[np.int32],
    place: NDArray[np.int64],
    pair: NDArray[np.int32],
) -> int:
    """Fill ``place`` and ``pair`` from the front; how many were found."""
    found = 0
    for query in range(len(rows)):
        row = rows[query]
        if row < 0:
            continue
        for at in range(offsets[query], offsets[query + 1]):
            doc = docs[at]
            known = EMPTY
            further = True
            for level in range(len(slots)):
                spread = (np.int64(doc) * np.int64(multipliers[level])) & 0xFFFFFFFF
                slot = (row << np.int64(bits[level])) + (spread >> np.int64(32 - bits[level]))
                stored = slots[level][slot]
                if stored == doc:
                    known = pairs[level][slot]
                    further = False
                elif stored == EMPTY:
                    further = False
                if not further:
                    break
            if further and len(keys):
                key = (row << 32) | doc
                where = np.searchsorted(keys, key)
                if where < len(keys) and keys[where] == key:
                    known = of_key[where]
            if known != EMPTY:
                place[found] = at
                pair[found] = known
                found += 1
    return found
