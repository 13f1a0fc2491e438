"""How scores become one order: as the specification writes it, and by rank.

Scores come as arrays over the same candidates, shape (candidates,). Whatever comes out is in
[0, 1] and finite, so that no comparison meets what is not a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RRF_K = 60.0
"""Specification 004, section 4."""
BASE_WEIGHT, MAXSIM_WEIGHT = 0.4, 0.6
"""Specification 004, section 5."""
SCORE_DIGITS = 12
"""Sums differ below that by their order."""

Scores = NDArray[np.float64]


class Leg(NamedTuple):
    """What one model says of all candidates, and how much it counts."""

    scores: Scores
    weight: float


def clean(scores: Scores) -> Scores:
    """Bring scores to where they can be ordered: what is not a number becomes 0."""
    known = np.where(np.isnan(scores), 0.0, scores)
    return np.round(np.clip(known, 0.0, 1.0), SCORE_DIGITS)


def ranks(scores: Scores) -> Scores:
    """Rank of each candidate from 1; equal scores share the best of their ranks.

    What is not a number comes last.
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    return np.searchsorted(np.sort(-known), -known).astype(np.float64) + 1.0


def as_specified(legs: Sequence[Leg], count: int) -> Scores:
    """Sum weight / (60 + 1 / score) over the legs; a score of 0 or less adds nothing.

    Specification 004, section 4. It calls this reciprocal rank fusion, and it has no rank in it:
    with weights 1.0 and 0.8 no sum passes 0.03.
    """
    total = np.zeros(count)
    for leg in legs:
        counts = leg.scores > 0
        with np.errstate(over="ignore"):
            inverse = np.divide(1.0, leg.scores, out=np.full(count, np.inf), where=counts)
        total += np.where(counts, leg.weight / (RRF_K + inverse), 0.0)
    return clean(total)


def by_rank(legs: Sequence[Leg], count: int) -> Scores:
    """Sum weight / (60 + rank) over the legs, as a share of the largest sum there can be.

    Cormack, Clarke and Buettcher, SIGIR 2009. Candidates that a leg scores alike share a rank, so
    a leg that has nothing to say does not decide.
    """
    if not legs:
        return np.zeros(count)
    total = np.zeros(count)
    for leg in legs:
        total += leg.weight / (RRF_K + ranks(leg.scores))
    return clean(total * (RRF_K + 1) / sum(leg.weight for leg in legs))


def blend_as_specified(base: Scores, maxsim: Scores) -> Scores:
    """0.4 * base + 0.6 * maxsim (specification 004, section 5)."""
    return clean(BASE_WEIGHT * base + MAXSIM_WEIGHT * np.maximum(maxsim, 0.0))


def blend_by_rank(base: Scores, maxsim: Scores) -> Scores:
    """Fuse both by rank, with the weights of the blend."""
    return by_rank([Leg(base, BASE_WEIGHT), Leg(maxsim, MAXSIM_WEIGHT)], len(base))
