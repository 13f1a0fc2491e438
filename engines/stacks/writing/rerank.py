"""Order candidates by a local model, or say why not.

Specification 001, "Local embedding rerank (topN)".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from engines.stacks.writing.cache import VectorCache
from engines.vector.embedder import Embedder


class Reason(StrEnum):
    """Why candidates keep their order."""

    MODEL_NOT_READY = "MODEL_NOT_READY"
    DISABLED = "DISABLED"
    NO_CANDIDATES = "NO_CANDIDATES"


class Outcome(NamedTuple):
    """Outcome of a rerank."""

    order: tuple[int, ...]
    """Positions of the candidates in their new order."""
    cosines: tuple[float, ...]
    """Of the candidates, as they came; empty without a rerank."""
    keys: tuple[float, ...]
    """What they are ordered by: the cosine, or its sum with the share of FTS. In [-1, 1]."""
    reason: Reason | None
    """None where the candidates were reranked."""


@dataclass(frozen=True, slots=True)
class LocalRerank:
    """The model, which may be absent, and the vectors it made lately."""

    embedder: Embedder | None
    enabled: bool
    cache: VectorCache
    fts_share: float = 0.0
    """What the score of FTS counts in the order, in [0, 1]; the cosine counts the rest."""

    def order(self, text: str, snippets: Sequence[str], fts: Sequence[float] = ()) -> Outcome:
        """Order snippets by their cosine with the text, equal ones as they came.

        ``fts`` has the score of each by FTS, in [0, 1]; none count as 0.

        A model that fails is a model that is not ready: the order of FTS stays.
        """
        same = tuple(range(len(snippets)))
        if not self.enabled:
            return Outcome(same, (), (), Reason.DISABLED)
        if self.embedder is None:
            return Outcome(same, (), (), Reason.MODEL_NOT_READY)
        if not snippets:
            return Outcome(same, (), (), Reason.NO_CANDIDATES)
        try:
            asked = self.cache.vector(self.embedder, text)
            rows = np.stack([self.cache.vector(self.embedder, one) for one in snippets])
        except Exception:  # noqa: BLE001  a runtime of models raises what it likes
            return Outcome(same, (), (), Reason.MODEL_NOT_READY)
        cosines = (rows @ asked).astype(np.float64)
        if not np.isfinite(cosines).all():
            return Outcome(same, (), (), Reason.MODEL_NOT_READY)
        told = tuple(cosines.tolist())
        share = self.fts_share
        base = fts or [0.0] * len(told)
        keys = tuple(
            (1 - share) * cosine + share * score for cosine, score in zip(told, base, strict=True)
        )
        return Outcome(tuple(sorted(same, key=lambda at: -keys[at])), told, keys, None)
