"""Sums over resampled queries: many columns share one draw, and no result depends on the blocks.

A resample is a row of a sparse matrix that is multiplied with the columns. Each of its sums is
added up in one order, whatever block or thread it falls into, so results are the same bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harness.core.batches.batch import Batch
from harness.core.batches.mapping import current, map_batches
from harness.core.durable.leftovers import written_in
from harness.stats.counter_rng import LINE_BYTES, Purpose, picks, slab_bytes

WORTH = 100_000_000
"""Picks from which on it pays to send columns away."""
BLOCK = 20_000_000
"""Picks of a batch."""
Columns = NDArray[np.float64]
"""Shape (units, columns)."""
Sums = Callable[[Columns, range], Columns]
"""Gives the sums of the resamples in a range; no sum depends on the range."""
PICKS_AT_ONCE = 160_000
SLABS_AT_ONCE = 3
"""Slabs whose sums stay in the cache together; threads meet twice for so many."""
BYTE_STATES = 256
SIGNS = (-1.0, 1.0)
WEIGHTS = (
    -0.7422271989685592,
    -0.7422271989685592,
    -0.20550565907877782,
    1.6899600570158961,
)
"""Two of four are the root near -0.74 of x**3 - x - 1/3; moments 0, 1 and 1 give the others."""
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Does its first argument with each of its second, as ``map`` does."""


def drawn_sums(columns: Columns, *, resamples: int, seed: int, threads: int = 1) -> Columns:
    """Sum of as many units as there are, drawn with replacement; shape (resamples, columns).

    All columns share the draw.
    """
    units = len(columns)
    sums = partial(_drawn, seed)
    if (folder := worth_sharing(resamples, units)) is not None:
        return shared_sums(columns, sums, resamples, folder)
    found = np.empty((resamples, columns.shape[1]))

    def work(block: range) -> None:
        found[block.start : block.stop] = sums(columns, block)

    with _spread(threads) as each:
        list(each(work, _blocks(resamples, units, threads)))
    return found


def _drawn(seed: int, columns: Columns, block: range) -> Columns:
    units = len(columns)
    drawn = picks(seed, Purpose.QUERIES, first=block.start, rows=len(block), units=units)
    return _Sums(len(block), units).of(drawn, columns)


def flipped_sums(columns: Columns, *, resamples: int, seed: int, threads: int = 1) -> Columns:
    """Sum of the units under random signs; shape (resamples, columns).

    All columns share the signs.
    """
    return _by_bytes(columns, SIGNS, Purpose.SIGNS, resamples=resamples, seed=seed, threads=threads)


def reweighted_sums(columns: Columns, *, resamples: int, seed: int, threads: int = 1) -> Columns:
    """Sum of the units under random weights; shape (resamples, columns).

    A weight has mean 0, variance 1 and third moment 1. For many units, so has the count of a unit
    drawn with replacement, less 1. So sums around their mean have the first three moments of
    ``drawn_sums``. All columns share the weights.
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
    if (folder := worth_sharing(resamples, len(columns))) is not None:
        return shared_sums(columns, partial(_slabs, levels, purpose, seed), resamples, folder)
    found = np.zeros((resamples, columns.shape[1]))
    units = LINE_BYTES * _units_a_byte(levels)
    slabs = range(-(-len(columns) // units))

    def made(slab: int) -> Columns:
        return _sums_by_byte(columns[slab * units : (slab + 1) * units], levels)

    with _spread(threads) as each:
        for start in slabs[::SLABS_AT_ONCE]:
            sums = list(each(made, slabs[start : start + SLABS_AT_ONCE]))

            def work(block: range, first: int = start, sums: Sequence[Columns] = sums) -> None:
                rows, widths = len(block), [len(one) // BYTE_STATES for one in sums]
                adding = {width: _ByteSums(rows, width) for width in set(widths)}
                for slab, (width, one) in enumerate(zip(widths, sums, strict=True), start=first):
                    drawn = slab_bytes(seed, purpose, slab=slab, first=block.start, rows=rows)
                    found[block.start : block.stop] += adding[width].of(drawn[:, :width], one)

            list(each(work, _blocks(resamples, LINE_BYTES, threads)))
    return found


def _slabs(
    levels: tuple[float, ...], purpose: Purpose, seed: int, columns: Columns, block: range
) -> Columns:
    """Give the sums of one block, slab after slab as above."""
    found = np.zeros((len(block), columns.shape[1]))
    units = LINE_BYTES * _units_a_byte(levels)
    for slab, first in enumerate(range(0, len(columns), units)):
        sums = _sums_by_byte(columns[first : first + units], levels)
        width = len(sums) // BYTE_STATES
        drawn = slab_bytes(seed, purpose, slab=slab, first=block.start, rows=len(block))
        found += _ByteSums(len(block), width).of(drawn[:, :width], sums)
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
    by_group = padded.T.reshape(-1, groups, units, 1)
    sums = np.zeros((columns.shape[1], groups, 1))
    for at in range(units):
        weighed = by_group[:, :, at] * np.array(levels)
        sums = (weighed[..., None] + sums[:, :, None]).reshape(*sums.shape[:2], -1)
    return np.ascontiguousarray(sums.reshape(len(sums), -1).T)


class _Sums:
    """Adds up the units that each row names, in the order in which it names them.

    A row is one of a sparse matrix of ones, which is made once for many tables of its shape.
    """

    def __init__(self, rows: int, width: int) -> None:
        self._named = np.empty((rows, width), dtype=np.int32)
        self._ones = np.ones(self._named.size)
        self._ends = np.arange(0, self._named.size + 1, width, dtype=np.int32)

    def of(self, named: NDArray[np.int32], columns: Columns) -> Columns:
        """Give the sums of the ``columns`` that each row of ``named`` names, one row each."""
        parts = (self._ones, named.reshape(-1), self._ends)
        return np.asarray(csr_array(parts, shape=(len(named), len(columns))) @ columns)


class _ByteSums(_Sums):
    """The same for bytes, of which each column has a table of 256 units of its own."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(rows, width)
        self._tables = np.tile(np.arange(width, dtype=np.int32) * BYTE_STATES, (rows, 1))

    def of(self, named: NDArray[Any], columns: Columns) -> Columns:
        np.copyto(self._named, named)
        self._named |= self._tables
        return super().of(self._named, columns)


def _blocks(resamples: int, picks: int, threads: int) -> Iterator[range]:
    """Split the resamples evenly, of so many picks each, into blocks that keep threads busy."""
    fewest = -(-resamples * picks // PICKS_AT_ONCE)
    count = min(resamples, -(-fewest // threads) * threads)
    ends = [resamples * at // count for at in range(count + 1)]
    yield from (range(start, stop) for start, stop in pairwise(ends))


@contextmanager
def _spread(threads: int) -> Iterator[Each]:
    """Give a ``map`` that works on so many threads."""
    if threads == 1:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def worth_sharing(resamples: int, units: int) -> Path | None:
    """Give the folder of what other processes draw; None where this process does it."""
    return current().folder if resamples * units >= WORTH else None


@dataclass(frozen=True, slots=True)
class Drawing:
    """Writes the sums of one block."""

    columns: Path
    sums: Sums

    def __call__(self, block: range, beside: Path) -> Iterator[int]:
        columns = np.load(self.columns, mmap_mode="r")
        rows = max(1, PICKS_AT_ONCE // max(1, len(columns)))
        found = [self.sums(columns, block[at : at + rows]) for at in range(0, len(block), rows)]
        with beside.open("wb") as file:
            np.save(file, np.concatenate(found))
        yield 1


def shared_sums(columns: Columns, sums: Sums, resamples: int, folder: Path) -> Columns:
    """Let the executor of the block draw; shape (resamples, columns)."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = max(1, BLOCK // max(1, len(columns)))
    blocks = [range(at, min(resamples, at + rows)) for at in range(0, resamples, rows)]
    with written_in(folder) as place:
        given = place / "columns.npy"
        np.save(given, np.ascontiguousarray(columns))
        parts = [Batch(block, place / f"{block.start}.npy") for block in blocks]
        map_batches(Drawing(given, sums), parts)
        return np.concatenate([np.load(part.part) for part in parts])
