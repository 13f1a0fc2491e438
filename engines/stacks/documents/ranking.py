"""The three stages: recall 500 chunks, rank 100, rerank them (specification 004, sections 1-5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.lexical.typed import positive
from engines.stacks.documents import fusion
from engines.stacks.documents.fusion import Leg
from engines.stacks.documents.models import Models
from engines.stacks.documents.recall import Recall
from engines.stacks.documents.settings import Settings

RECALLED, RANKED = 500, 100
"""Specification 004, section 1."""
DENSE_WEIGHT, SPARSE_WEIGHT = 1.0, 0.8
"""Of E1 and E6; specification 004, section 2."""
BM25, SEMANTIC, COLBERT = "bm25", "semantic", "colbert"
"""Names of the stages in an answer; specification 004, section 7."""


class Ranked(NamedTuple):
    """Chunks found for a query, best first."""

    rows: NDArray[np.int64]
    """Positions of chunks; equal scores go by position, which is by chunk id."""
    scores: NDArray[np.float64]
    """In [0, 1]."""
    stages_used: tuple[str, ...]
    """Those that ran."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages over one open index."""

    settings: Settings
    recall: Recall
    models: Models

    def rank(self, text: str, allowed: NDArray[np.bool_] | None = None) -> Ranked:
        """Rank at most ``RANKED`` chunks; ``allowed``, shape (chunks,), says which may be found.

        A stage whose model is missing is left out, and so is not among ``stages_used``. Without
        stage 2 the order is that of recall. Of a text that only refuses words, what ``allowed``
        leaves is listed.
        """
        typed = positive(text)
        if not typed and allowed is not None:
            rows = np.flatnonzero(allowed)[:RANKED]
            return Ranked(rows, np.zeros(len(rows)), ())
        rows = self.recall.search(typed, RECALLED, allowed)
        used = [BM25]
        if not len(rows):
            return Ranked(rows, np.zeros(0), tuple(used))
        recalled = -np.arange(len(rows), dtype=np.float64)
        legs = self._legs(typed, rows)
        if not legs:
            scores = fusion.by_rank([Leg(recalled, 1.0)], len(rows))
        else:
            used.append(SEMANTIC)
            scores = self._fused(legs, recalled)
        rows, scores = _best(rows, scores)
        if self.models.late is not None:
            used.append(COLBERT)
            rows, scores = _best(rows, self._blended(typed, rows, scores))
        return Ranked(rows, scores, tuple(used))

    def legs(self, text: str, rows: NDArray[np.int64]) -> Mapping[str, list[float | int | None]]:
        """Say of chunks their rank in recall, the cosine of E1 and the dot product of E6."""
        typed = positive(text)
        if not typed or not len(rows):
            return {}
        recalled = self.recall.search(typed, RECALLED, None).tolist()
        ranks = {row: at for at, row in enumerate(recalled, start=1)}
        told: dict[str, list[float | int | None]] = {BM25: [ranks.get(r) for r in rows.tolist()]}
        if self.models.dense is not None:
            told["e1"] = [*self.models.dense.cosines(typed, rows).tolist()]
        if self.models.sparse is not None:
            told["e6"] = [*self.models.sparse.dots(typed, rows).tolist()]
        return told

    def _legs(self, text: str, rows: NDArray[np.int64]) -> list[Leg]:
        legs = []
        if self.models.dense is not None:
            legs.append(Leg(self.models.dense.cosines(text, rows), DENSE_WEIGHT))
        if self.models.sparse is not None:
            legs.append(Leg(self.models.sparse.dots(text, rows), SPARSE_WEIGHT))
        return legs

    def _fused(self, legs: list[Leg], recalled: fusion.Scores) -> fusion.Scores:
        if self.settings.fusion == "specification":
            return fusion.as_specified(legs, len(recalled))
        if self.settings.recall_weight:
            legs = [*legs, Leg(recalled, self.settings.recall_weight)]
        return fusion.by_rank(legs, len(recalled))

    def _blended(self, text: str, rows: NDArray[np.int64], base: fusion.Scores) -> fusion.Scores:
        if self.models.late is None:
            return base
        maxsim = self.models.late.maxsims(text, rows)
        if self.settings.blend == "specification":
            return fusion.blend_as_specified(base, maxsim)
        return fusion.blend_by_rank(base, maxsim)


def _best(
    rows: NDArray[np.int64], scores: fusion.Scores
) -> tuple[NDArray[np.int64], fusion.Scores]:
    """Order by score, equal ones by chunk, and keep ``RANKED``."""
    kept = np.lexsort((rows, -scores))[:RANKED]
    return rows[kept], scores[kept]
