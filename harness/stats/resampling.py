"""Sums over resampled queries: many columns share one draw, and no result depends on the blocks.

A resample is a row of a sparse matrix that is multiplied with the columns. Each of its sums is
added up in one order, whatever block or thread it falls into, so results are the same bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harness.stats.streams import LINE_BYTES, Purpose, picks, slab_bytes

PICKS_AT_ONCE = 1 << 18
BYTE_STATES = 256
SIGNS = (-1.0, 1.0)
WEIGHTS = (
    -0.7422271989685592,
    -0.7422271989685592,
    -0.20550565907877782,
    1.6899600570158961,
)
"""Two of four are the root near -0.74 of x**3 - x - 1/3; moments 0, 1 and 1 give the others."""

Columns = NDArray[np.float64]
"""Shape (units, columns)."""
Work = Callable[[int, int], None]
"""Does the resamples from its first argument up to its second."""


def drawn_sums(columns: Columns, *, resamples: int, seed: int, threads: int = 1) -> Columns:
    """Sum of as many units as there are, drawn with replacement; shape (resamples, columns).

    All columns share the draw.
    """
    units = len(columns)
    found = np.empty((resamples, columns.shape[1]))

    def work(start: int, stop: int) -> None:
        drawn = picks(seed, Purpose.QUERIES, first=start, rows=stop - start, units=units)
        found[start:stop] = _gathered(drawn, columns)

    _over(work, resamples, max(1, PICKS_AT_ONCE // units), threads)
    return found


def flipped_sums(columns: Columns, *, resamples: int, seed: int, threads: int = 1) -> Columns:
    """Sum of the units under random signs; shape (resamples, columns).

    All columns share the signs.
    """
    return _by_bytes(columns, SIGNS, Purpose.SIGNS, resamples=resamples, seed=seed, threads=threads)


def reweighted_sums(columns: Columns, *, resamples: int, seed: int, threads: int = 1) -> Columns:
    """Sum of the units under random weights; shape (resamples, columns).

    A weight has mean 0, variance 1 and third moment 1, as one less than the number of times that
    a unit is drawn with replacement has for many units: so sums around their mean have the first
    three moments of ``drawn_sums``. All columns share the weights.
    """
    return _by_bytes(
        columns, WEIGHTS, Purpose.WEIGHTS, resamples=resamples, seed=seed, threads=threads
    )


def _by_bytes(
    columns: Columns,
    levels: tuple[float, ...],
    purpose: Purpose,
    *,
    resamples: int,
    seed: int,
    threads: int,
) -> Columns:
    """Sum of the units, each times one of ``levels``, all alike probable.

    A few units share a random byte, which picks one of the 256 sums that they can have; units
    are taken in slabs whose sums stay in the processor's cache.
    """
    found = np.zeros((resamples, columns.shape[1]))
    width = LINE_BYTES * _units_a_byte(levels)
    for slab, start in enumerate(range(0, len(columns), width)):
        sums = _sums_by_byte(columns[start : start + width], levels)
        step = np.arange(0, len(sums), BYTE_STATES, dtype=np.int32)

        def work(
            start: int,
            stop: int,
            slab: int = slab,
            sums: Columns = sums,
            step: NDArray[np.int32] = step,
        ) -> None:
            drawn = slab_bytes(seed, purpose, slab=slab, first=start, rows=stop - start)
            found[start:stop] += _gathered(drawn[:, : len(step)] + step, sums)

        _over(work, resamples, PICKS_AT_ONCE // len(step), threads)
    return found


def _units_a_byte(levels: tuple[float, ...]) -> int:
    return round(math.log(BYTE_STATES, len(levels)))


def _sums_by_byte(columns: Columns, levels: tuple[float, ...]) -> Columns:
    """Give the sums of each byte's units under each byte, shape (bytes * 256, columns).

    The first unit has the lowest bits.
    """
    units = _units_a_byte(levels)
    groups = -(-len(columns) // units)
    padded = np.zeros((groups * units, columns.shape[1]))
    padded[: len(columns)] = columns
    by_group = padded.reshape(groups, units, 1, -1)
    sums = np.zeros((groups, 1, columns.shape[1]))
    for at in range(units):
        sums = np.concatenate([sums + level * by_group[:, at] for level in levels], axis=1)
    return sums.reshape(groups * BYTE_STATES, -1)


def _gathered(rows: NDArray[np.int32], columns: Columns) -> Columns:
    """Sum the ``columns`` that each row names, shape (rows, columns)."""
    count, width = rows.shape
    ends = np.arange(0, rows.size + 1, width, dtype=np.int32)
    chosen = csr_array((np.ones(rows.size), rows.reshape(-1), ends), shape=(count, len(columns)))
    return np.asarray(chosen @ columns)


def _over(work: Work, resamples: int, block: int, threads: int) -> None:
    """Do all resamples in blocks, on so many threads."""
    starts = range(0, resamples, block)
    stops = [min(start + block, resamples) for start in starts]
    if threads == 1:
        for start, stop in zip(starts, stops, strict=True):
            work(start, stop)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, starts, stops))
