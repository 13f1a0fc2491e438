"""Resamples drawn by other processes, block by block; the sums are those of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.batches.batch import Batch
from harness.core.batches.mapping import current, map_batches
from harness.core.durable.leftovers import written_in

WORTH = 100_000_000
"""Picks from which on it pays to send columns away."""
BLOCK = 20_000_000
"""Picks of a batch."""
AT_ONCE = 160_000

Columns = NDArray[np.float64]
Sums = Callable[[Columns, range], Columns]
"""Gives the sums of the resamples in a range; no sum depends on the range."""


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
        rows = max(1, AT_ONCE // max(1, len(columns)))
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
