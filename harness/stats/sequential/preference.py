"""Which of two arms sessions prefer: the sign test, and a sequence that is valid at every look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.sequential.anytime import anytime


@dataclass(frozen=True, slots=True)
class Preference:
    """Sessions that prefer the candidate, the control, or neither."""

    wins: int
    losses: int
    ties: int
    p_value: float
    """Two-sided, of "neither is preferred"; for a number of sessions that was set before."""
    estimate: Estimate
    """Share of wins minus that of losses, with a confidence sequence: valid at every look."""


def preference(signs: NDArray[np.int64], *, confidence: float) -> Preference:
    """Test signs of sessions in the order they came: 1 candidate, -1 control, 0 neither.

    The sign test of Dixon and Mood, JASA 41 (1946), leaves ties out; the sequence counts them.

    Raises:
        EvidenceError: sessions are missing, or a sign is another number.
    """
    if not np.isin(signs, (-1, 0, 1)).all():
        raise EvidenceError("a session has a sign other than -1, 0 and 1; give signs")
    wins, losses = int((signs > 0).sum()), int((signs < 0).sum())
    found = anytime(signs.astype(np.float64), confidence=confidence, least=-1.0, most=1.0)
    return Preference(wins, losses, len(signs) - wins - losses, sign_test(wins, losses), found)


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p-value of as many wins as losses; 1 where there are neither."""
    fewer, both = min(wins, losses), wins + losses
    return min(1.0, 2 * float(bdtr(fewer, both, 0.5))) if both else 1.0
