"""Which of the documents that two lists share stand in another order, document by document."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.agreement.pair import Pair

BLOCK = 32_768
"""Ranks compared at a time: their arrays stay in the cache of a core."""


@dataclass(frozen=True, slots=True, eq=False)
class Discordance:
    """Counts for each rank of the control, shape (queries, at most depth); 0 if not shared.

    Before and after are of shared documents only, so ranks are compressed.
    """

    shared: NDArray[np.bool_]
    """Whether the candidate shows the control's document of that rank too."""
    before: NDArray[np.int32]
    """Those that the control puts before it and the candidate after it."""
    after: NDArray[np.int32]
    """Those that the control puts after it and the candidate before it."""

    @classmethod
    def of(cls, pair: Pair, depth: int) -> Discordance:
        """Compare every two shared documents of the first ``depth``."""
        rank = pair.within(depth)
        shared = rank < depth
        queries, width = rank.shape
        before = np.zeros(rank.shape, dtype=np.int32)
        after = np.zeros(rank.shape, dtype=np.int32)
        step = max(1, BLOCK // max(width, 1))
        for low in range(0, queries, step):
            rows = slice(low, low + step)
            _compare(rank[rows], shared[rows], before[rows], after[rows])
        return cls(shared, before, after)


def _compare(
    rank: NDArray[np.int64],
    shared: NDArray[np.bool_],
    before: NDArray[np.int32],
    after: NDArray[np.int32],
) -> None:
    """Add the counts of one block; columns are made rows, which lie together."""
    if not shared.any():
        return
    place = np.ascontiguousarray(np.where(shared, rank, -1).T.astype(np.int32))
    held = np.ascontiguousarray(shared.T)
    above = np.zeros(place.shape, dtype=np.int32)
    below = np.zeros(place.shape, dtype=np.int32)
    for at in range(1, len(place)):
        wrong = (place[:at] > place[at]) & held[at]
        above[at] = wrong.sum(axis=0, dtype=np.int32)
        below[:at] += wrong
    before[:] = above.T
    after[:] = below.T
