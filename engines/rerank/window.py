"""The window of best candidates that a reranker orders anew, and what stays below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engines.contract.errors import EngineError, SearchError

LEAST = 1e-6
"""Lowest score of a window with candidates below it: they need room to keep their order."""


class Reranked(NamedTuple):
    """What a reranker says of one candidate."""

    score: float
    """In [0, 1], higher is better."""
    raw_score: float
    """What the reranker counts in: a logit, or a mean of cosines."""


class Reranker(Protocol):
    """Reads query and candidate together; slower and better than comparing two vectors."""

    @property
    def identity(self) -> str:
        """Everything that a score depends on beside query and candidates."""
        ...

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Judge each candidate of the window.

        ``ids`` come best first; ``fused``, in [0, 1], are the scores that brought them there. A
        cross-encoder does not look at them, late interaction blends with them.

        Raises:
            FeatureUnavailable: what it needs is not there.
            EngineError: it failed, or a candidate is one that it does not know.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Stands for a reranker that was requested and could not be opened."""

    why: SearchError

    @property
    def identity(self) -> str:
        return "absent"

    def rerank(self, *_: object) -> Sequence[Reranked]:
        """Say why there is none.

        Raises:
            FeatureUnavailable: there is none.
            EngineError: it is broken.
        """
        raise type(self.why)(str(self.why))


class Joined(NamedTuple):
    """Final scores of a window and of what lies below it."""

    window: tuple[Reranked, ...]
    below: tuple[float, ...]


def joined(window: Sequence[Reranked], below: Sequence[float]) -> Joined:
    """Score what lies below a window so that it keeps its order below it (decision 17).

    ``below`` are fused scores under 1; each becomes that share of the window's lowest score. A
    window that reaches down to less than ``LEAST`` is lifted into [``LEAST``, 1] first.

    Raises:
        EngineError: a score of the window is not in [0, 1], or a raw one is not finite.
    """
    for judged in window:
        if not (0.0 <= judged.score <= 1.0 and math.isfinite(judged.raw_score)):
            raise EngineError(f"the reranker scored {judged.score}, raw {judged.raw_score}")
    floor = min((judged.score for judged in window), default=1.0)
    if below and floor < LEAST:
        window = [judged._replace(score=LEAST + (1 - LEAST) * judged.score) for judged in window]
        floor = min(judged.score for judged in window)
    return Joined(tuple(window), tuple(score * floor for score in below))
