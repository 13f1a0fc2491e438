"""Kendall's tau-b and AP correlation: whether two lists order what they share alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.agreement.discordance import Discordance
from harness.agreement.pair import Pair
from harness.agreement.partial import Partial

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
