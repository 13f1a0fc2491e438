"""Whether a query has a document twice: small sorts instead of a large one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPARSE = 4
"""Rows are laid side by side unless that takes more than so many times their own room."""


def repeats(docs: NDArray[np.int32], offsets: NDArray[np.int64]) -> bool:
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
