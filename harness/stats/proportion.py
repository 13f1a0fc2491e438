"""The exact interval of a share."""

from __future__ import annotations

import math

from scipy.special import betaincinv

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate


def share(count: int, of: int, *, confidence: float) -> Estimate:
    """Share ``count / of`` with its exact interval (Clopper and Pearson, Biometrika 26, 1934).

    Raises:
        EvidenceError: ``of`` is 0, or ``count`` does not lie between 0 and ``of``.
    """
    if of <= 0 or not 0 <= count <= of:
        raise EvidenceError(f"{count} of {of} is not a share; count at least one query")
    tail = (1 - confidence) / 2
    hits, misses = count, of - count
    low = float(betaincinv(hits, misses + 1, tail)) if count else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if count < of else 1.0
    return Estimate(count / of, low, high, of)


def size_for(count: int, *, ceiling: float, confidence: float) -> int:
    """Fewest queries for which ``count`` hits give an interval wholly below ``ceiling``.

    Raises:
        EvidenceError: ``ceiling`` does not lie between 0 and 1, so that no number is enough.
    """
    if not 0 < ceiling < 1:
        raise EvidenceError(f"no number of queries shows a share below {ceiling}")
    low, high = count, max(1, math.ceil((count + 1) / ceiling))
    while share(count, high, confidence=confidence).high >= ceiling:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if share(count, middle, confidence=confidence).high < ceiling:
            high = middle
        else:
            low = middle
    return high
