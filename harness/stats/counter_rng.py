"""Counter-based random numbers: a resample's number alone determines its draws.

The generator is Philox 4x64 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
2, 3", SC 2011). It turns a key and a counter into a line of four words. The key comes from the seed
and the purpose, the counter from the number of the resample. So any thread may draw any resample,
in any order and in blocks of any size, with the same result.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

LINE_WORDS = 4
LINE_BYTES = 32
LINE_PICKS = 8
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


class Purpose(IntEnum):
    """What the words are for; two purposes never share a word."""

    QUERIES = 1
    SIGNS = 2
    TIMES = 3
    WEIGHTS = 4


def picks(seed: int, purpose: Purpose, *, first: int, rows: int, units: int) -> NDArray[np.int32]:
    """Draw ``units`` of ``units`` with replacement for each resample, shape (rows, units).

    Row r belongs to resample ``first + r``. Half a word is mapped to a unit by multiplication
    (Lemire, ACM TOMACS 29, 2019) without his rejection: the chances of two units differ by
    less than ``units / 2**32`` of themselves.
    """
    lines = -(-units // LINE_PICKS)
    words = _words(seed, purpose, (first * lines, 0), rows * lines)
    found = np.empty((rows, lines * LINE_PICKS), dtype=np.int32)
    width = np.uint64(units)
    found[:, 0::2] = (((words >> HALF) * width) >> HALF).reshape(rows, -1)
    found[:, 1::2] = (((words & LOW_HALF) * width) >> HALF).reshape(rows, -1)
    return found[:, :units]


def slab_bytes(
    seed: int, purpose: Purpose, *, slab: int, first: int, rows: int
) -> NDArray[np.uint8]:
    """Draw the 32 bytes that the units of slab ``slab`` share, shape (rows, 32).

    Row r belongs to resample ``first + r``, which is its counter; the slab is the counter's
    second word.
    """
    words = _words(seed, purpose, (first, slab), rows)
    return words.astype("<u8", copy=False).view(np.uint8).reshape(rows, -1)


def _words(seed: int, purpose: Purpose, counter: tuple[int, int], lines: int) -> NDArray[np.uint64]:
    """Give the words of ``lines`` lines, shape (4 * lines,)."""
    key = np.random.SeedSequence((seed, purpose)).generate_state(2, np.uint64)
    start = np.array([*counter, 0, 0], dtype=np.uint64)
    return np.random.Philox(key=key, counter=start).random_raw(lines * LINE_WORDS)
