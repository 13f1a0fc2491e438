"""Jaccard@k: how many of the documents that either list shows are shown by both."""

from __future__ import annotations

import numpy as np

from harness.agreement.pair import Pair
from harness.agreement.partial import Partial


def jaccard(pair: Pair, depth: int) -> Partial:
    """Divide |A and B| by |A or B| of the first ``depth``, in [0, 1].

    Jaccard (1901). The union is below, never the shorter list, so that a list cut short shows.
    One empty list gives 0; two are undefined.
    """
    shared = pair.shared(depth)
    control, candidate = pair.lengths(depth)
    return Partial.ratio(shared, (control + candidate - shared).astype(np.float64))
