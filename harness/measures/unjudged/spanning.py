"""Bounds of many queries, by this process or by several: each query has its bounds of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.batches.batch import Batch
from harness.core.batches.mapping import current, map_batches
from harness.core.durable.leftovers import written_in
from harness.measures.unjudged.bounds import Bounding, Case

WORTH = 20_000
"""Queries from which on it pays to send their lists away."""
BLOCK = 5_000
"""Queries of a batch."""
Spans = NDArray[np.float64]
"""Shape (queries, 3, 2): worst and best of the control, the candidate and the difference."""


def spans(wanted: Bounding, cases: Sequence[Case]) -> Spans:
    """Bound every case, by the executor of the block where that is worth it."""
    folder = current().folder
    if folder is None or len(cases) < WORTH:
        return _spans(wanted, cases)
    folder.mkdir(parents=True, exist_ok=True)
    with written_in(folder) as place:
        batches = [
            Batch(cases[at : at + BLOCK], place / f"{at}.npy") for at in range(0, len(cases), BLOCK)
        ]
        map_batches(Spanning(wanted), batches)
        return np.concatenate([np.load(batch.part) for batch in batches])


@dataclass(frozen=True, slots=True)
class Spanning:
    """Writes the bounds of some cases."""

    wanted: Bounding

    def __call__(self, cases: Sequence[Case], beside: Path) -> Iterator[int]:
        with beside.open("wb") as file:
            np.save(file, _spans(self.wanted, cases))
        yield 1


def _spans(wanted: Bounding, cases: Sequence[Case]) -> Spans:
    found = [(wanted.control(one), wanted.candidate(one), wanted.difference(one)) for one in cases]
    return np.array(found, dtype=np.float64).reshape(-1, 3, 2)
