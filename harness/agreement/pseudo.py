"""nDCG@k of the shadow with the serving list as its judgements."""

from __future__ import annotations

import numpy as np

from harness.agreement.pair import Pair
from harness.agreement.partial import Partial
from harness.core.elementary import log2


def pseudo_ndcg(pair: Pair, depth: int) -> Partial:
    """Score the candidate, the control's first ``depth`` gaining depth, ..., 2, 1; in [0, 1].

    It measures agreement, not quality: a candidate that is better than the control scores
    below 1. It is asymmetric: swapping the arms changes it. The discount is log2(rank + 1)
    (Järvelin and Kekäläinen 2002). An empty candidate gives 0; an empty control judges nothing
    and leaves it undefined.
    """
    rank = pair.within(depth)
    control, _ = pair.lengths(depth)
    own = np.arange(rank.shape[1])
    gain = (depth - own).astype(np.float64)
    shown = rank < depth
    gained = np.where(shown, gain / log2(np.where(shown, rank, 0) + 2), 0.0).sum(axis=1)
    best = np.where(own < control[:, None], gain / log2(own + 2), 0.0).sum(axis=1)
    return Partial.ratio(gained, best)
