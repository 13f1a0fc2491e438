"""How many documents only one of the arms shows, and how much longer its list is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.agreement.pair import Pair


def serving_only(pair: Pair, depth: int) -> NDArray[np.int64]:
    """Documents that only the control shows within ``depth``, shape (queries,)."""
    return pair.lengths(depth)[0] - pair.shared(depth)


def shadow_only(pair: Pair, depth: int) -> NDArray[np.int64]:
    """Documents that only the candidate shows within ``depth``, shape (queries,)."""
    return pair.lengths(depth)[1] - pair.shared(depth)


def length_difference(pair: Pair) -> NDArray[np.int64]:
    """Hits of the candidate less those of the control, uncut, shape (queries,)."""
    return pair.candidate_length - pair.control_length
