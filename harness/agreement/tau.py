"""Kendall's tau-b: whether two lists order the documents that they share alike."""

from __future__ import annotations

from harness.agreement.discordance import Discordance
from harness.agreement.pair import Pair
from harness.agreement.partial import Partial

FEWEST = 2


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
