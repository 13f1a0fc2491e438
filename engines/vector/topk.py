"""The best of many scores, without sorting them all and without keeping them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 256
"""Scores that share one maximum; the k-th highest maximum is a bound that k scores reach."""
FEW = 8
"""Where at most one block of so many can hold a candidate, the others are not looked into."""

Scores = NDArray[np.float64]
Positions = NDArray[np.int64]


class Top(NamedTuple):
    """Where the best scores stand, and what they are; shape (kept,) both."""

    positions: Positions
    scores: Scores


NOTHING = Top(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64))


def best(
    parts: Iterable[Scores],
    k: int,
    digits: int,
    exact: Callable[[Positions], Scores] | None = None,
) -> Top:
    """Rank the ``k`` highest of all scores, rounded to ``digits``: by (-score, position).

    Positions count from the first score of the first part. Of what has passed only ``k`` scores
    are held; a later position loses every tie, so from then on only a higher score is looked at.
    ``exact`` scores the positions that may be found once more, where the parts are off by up to one
    unit of the last digit.

    Raises:
        ValueError: ``k`` is below 1, or a score is NaN or plus infinity; minus infinity is never
            found.
    """
    if k < 1:
        raise ValueError(f"the best {k} were requested; ask for at least 1")
    kept, start = NOTHING, 0
    for scores in parts:
        if len(scores):
            floor = kept.scores.min() if len(kept.scores) == k else -np.inf
            positions = _candidates(scores, k, digits, floor)
            scored = scores[positions] if exact is None else exact(start + positions)
            rounded = scored.round(digits)
            higher = rounded > floor
            kept = _cut(_joined([kept, Top(start + positions[higher], rounded[higher])]), k)
        start += len(scores)
    return _ranked(kept)


def merged(tops: Iterable[Top], k: int) -> Top:
    """Rank together what searches of adjoining ranges found, first range first."""
    return _ranked(_cut(_joined(tops), k))


def _candidates(scores: Scores, k: int, digits: int, floor: float) -> Positions:
    """Find every score that may be among the best ``k`` of its part and above ``floor``."""
    starts = np.arange(0, len(scores), BLOCK)
    maxima = np.maximum.reduceat(scores, starts)
    if not np.isfinite(maxima).all():
        raise ValueError("a score is not a finite number")
    bound = floor
    if len(maxima) > k:
        bound = max(floor, np.partition(maxima, len(maxima) - k)[len(maxima) - k])
    bound -= 2 * 10.0**-digits
    blocks = np.flatnonzero(maxima >= bound)
    if len(blocks) * FEW > len(maxima):
        return np.flatnonzero(scores >= bound)
    inside = (starts[blocks, None] + np.arange(BLOCK)).ravel()
    inside = inside[: np.searchsorted(inside, len(scores))]
    positions: Positions = inside[scores[inside] >= bound]
    return positions


def _joined(tops: Iterable[Top]) -> Top:
    positions, scores = zip(NOTHING, *tops, strict=True)
    return Top(np.concatenate(positions), np.concatenate(scores))


def _cut(top: Top, k: int) -> Top:
    """Keep the best ``k``, of equal ones the first, in the order in which they come."""
    excess = len(top.scores) - k
    if excess <= 0:
        return top
    edge = np.partition(top.scores, excess)[excess]
    kept = top.scores > edge
    kept[np.flatnonzero(top.scores == edge)[: k - kept.sum()]] = True
    return Top(top.positions[kept], top.scores[kept])


def _ranked(top: Top) -> Top:
    by = np.argsort(-top.scores, kind="stable")
    return Top(top.positions[by], top.scores[by] + 0.0)
