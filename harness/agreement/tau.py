"""Kendall's tau-b and AP correlation: whether two lists order what they share alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.agreement.pair import Pair
from harness.agreement.partial import Partial

BLOCK = 32_768
"""Ranks compared at a time: their arrays stay in the cache of a core."""
FEWEST = 2


def tau_ap(pair: Pair, depth: int) -> Partial:
    """Symmetric AP correlation of what both lists show within ``depth``, in [-1, 1].

    Yilmaz, Aslam and Robertson, "A new rank correlation coefficient for information retrieval",
    SIGIR 2008. Of each shared document but the first, the share of those above it that the other
    list puts above it too, averaged and stretched to [-1, 1]. That depends on which list is
    gone down, so the value is the mean of both ways, as the paper has it: swapping the arms
    changes nothing. Ranks are compressed, and it is undefined below two shared documents, as tau.
    """
    found = Discordance.of(pair, depth)
    n = found.shared.sum(axis=1)
    control: NDArray[np.int64] = np.cumsum(found.shared, axis=1) - found.shared
    candidate = control - found.before + found.after
    wrong = _share(found.before, control, found.shared) + _share(
        found.after, candidate, found.shared
    )
    defined = n >= FEWEST
    return Partial(defined, 1 - wrong[defined] / (n[defined] - 1))


def _share(
    wrong: NDArray[np.int32], above: NDArray[np.int64], shared: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Sum ``wrong / above`` over the shared documents that have one above; shape (queries,)."""
    shares = np.divide(wrong, above, out=np.zeros(wrong.shape), where=shared & (above > 0))
    summed: NDArray[np.float64] = shares.sum(axis=1)
    return summed


def tau(pair: Pair, depth: int) -> Partial:
    """Tau-b over the documents that both lists show within ``depth``, in [-1, 1].

    Kendall (1938, 1945). Ranks are compressed to 1, 2, ... over the shared documents, so what
    only one list shows moves nothing and the value cannot leave [-1, 1]. Ranks hold no ties,
    hence tau-b is 1 - 4 discordant / (n (n - 1)). Undefined below two shared documents, and never
    0 for that.
    """
    found = Discordance.of(pair, depth)
    n = found.shared.sum(axis=1)
    defined = n >= FEWEST
    pairs = n[defined] * (n[defined] - 1)
    return Partial(defined, 1 - 4 * found.before.sum(axis=1)[defined] / pairs)


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
