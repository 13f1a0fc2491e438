"""Blocks of consecutive values: dependence inside a block no longer matters.

Bets on single values are fair only if the expected next mean never changes. Failures come in
bursts: within a burst the next one is likely, outside it is rarer than the mean. So a bet against
the mean wins without evidence. Means of blocks much longer than the bursts are nearly independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NS_PER_S = 1_000_000_000
ROUNDED = 1e-12
"""Means closer than this share of them count as equal (rounding)."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Complete blocks, by time."""

    means: Floats
    """Shape (blocks,)."""
    sizes: Ints
    """Shape (blocks,): values of each."""
    seconds: Floats
    """Shape (blocks,): from the first to the last value of each."""

    def rows(self, values: int) -> list[range]:
        """Split the blocks into rows of so many values or more; the last row may have fewer."""
        found, first, count = [], 0, 0
        for at, size in enumerate(self.sizes.tolist()):
            count += size
            if count >= values or at == len(self.sizes) - 1:
                found.append(range(first, at + 1))
                first, count = at + 1, 0
        return found

    @property
    def memory(self) -> tuple[float, float]:
        """Correlation of each block's mean with the next one's, and the same in standard errors.

        Both are 0 where no two blocks differ.
        """
        apart = self.means - self.means.mean() if len(self.means) else self.means
        squares = float((apart**2).sum())
        if squares <= len(apart) * (ROUNDED * float(np.abs(self.means).max(initial=0))) ** 2:
            return 0.0, 0.0
        found = float((apart[1:] * apart[:-1]).sum()) / squares
        return found, found * math.sqrt(len(apart))


def blocks(values: Floats, at_ns: Ints, *, min_size: int, seconds: float) -> Blocks:
    """Cut values in the order of time, shape (values,), into blocks.

    A block ends with the first value at which it has ``min_size`` and has lasted ``seconds``.
    The end does not depend on the values. Values of an incomplete last block are left out.
    ``at_ns``, shape (values,), ascends.
    """
    reach = round(seconds * NS_PER_S)
    ends, first = [], 0
    while first < len(values):
        long_enough = int(np.searchsorted(at_ns, at_ns[first] + reach)) if reach else first
        last = max(first + min_size - 1, long_enough)
        if last >= len(values):
            break
        ends.append(last + 1)
        first = last + 1
    stops = np.array(ends, dtype=np.int64)
    starts = np.concatenate([[0], stops[:-1]]).astype(np.int64)[: len(stops)]
    sums = np.add.reduceat(values[:first], starts) if ends else np.zeros(0)
    sizes = stops - starts
    return Blocks(sums / sizes, sizes, (at_ns[stops - 1] - at_ns[starts]) / NS_PER_S)
