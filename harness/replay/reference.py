"""A fixed piece of work, timed beside every race: how quick a machine is at what searching is.

Half of it is what an interpreter does, half is reading memory in no order. A budget that was set on
one machine is scaled by it on another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

NUMBERS = 4_000
"""That are sorted and put into a table: about a millisecond."""
CELLS, READS = 1 << 20, 1 << 16
"""Of a table of 8 MiB, and how many of them are read, in no order."""


@cache
def _table() -> NDArray[np.int64]:
    return np.random.default_rng(0).permutation(CELLS)


class Reference:
    """The work, with the table that it reads."""

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._clock = clock
        self._table = _table()

    def time_ns(self) -> int:
        """Do it once, and say how long it took."""
        start = self._clock()
        self.work()
        return self._clock() - start

    def work(self) -> int:
        """Do it once; always the same."""
        numbers = [at * 7919 % NUMBERS for at in range(NUMBERS)]
        table = {number: at for at, number in enumerate(sorted(numbers))}
        read = self._table[self._table[:READS]]
        return table[0] + int(read.max())
