"""How far a share of trials may lie from the true one."""

from __future__ import annotations

import math
from collections.abc import Callable

Draws = Callable[[int, int], int]


def chance(rate: float, trials: int) -> float:
    """Return the most that a true ``rate`` shows in ``trials``, but for one time in a thousand."""
    return rate + 3.1 * math.sqrt(rate * (1 - rate) / trials)
