"""The three stages: recall 500 chunks, rank 100, fuse and rerank them (004, sections 1-5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness_engines.lexical.grammar import positive
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.documents.models import Models
from harness_engines.stacks.documents.recall import Bm25

RRF_K = 60.0
"""Specification 004, section 4."""
BASE_WEIGHT, MAXSIM_WEIGHT = 0.4, 0.6
"""Specification 004, section 5."""
SCORE_DIGITS = 12
"""Sums differ below that by their order."""

Scores = NDArray[np.float64]
RECALLED, RANKED = 500, 100
"""Specification 004, section 1."""
DENSE_WEIGHT, SPARSE_WEIGHT = 1.0, 0.8
"""Of E1 and E6; specification 004, section 2."""
BM25, SEMANTIC, COLBERT = "bm25", "semantic", "colbert"
"""Names of the stages in an answer; specification 004, section 7."""


class RankedChunks(NamedTuple):
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

    settings: DocumentSettings
    recall: Bm25
    models: Models

    def rank(self, text: str, allowed: NDArray[np.bool_] | None = None) -> RankedChunks:
        """Rank at most ``RANKED`` chunks; ``allowed``, shape (chunks,), says which may be found.

        A stage whose model is missing is left out, and so is not among ``stages_used``. Without
        stage 2 the order is that of recall. Of a text that only refuses words, what ``allowed``
        leaves is listed.
        """
        typed = positive(text)
        if not typed and allowed is not None:
            rows = np.flatnonzero(allowed)[:RANKED]
            return RankedChunks(rows, np.zeros(len(rows)), ())
        rows = self.recall.search(typed, RECALLED, allowed)
        used = [BM25]
        if not len(rows):
            return RankedChunks(rows, np.zeros(0), tuple(used))
        recalled = -np.arange(len(rows), dtype=np.float64)
        legs = list(self._models(typed, rows).values())
        if legs:
            used.append(SEMANTIC)
        if legs and self.settings.fusion == "specification":
            scores = as_specified(legs, len(rows))
        else:
            weight = self.settings.recall_weight if legs else 1.0
            scores = by_rank([*legs, *([Leg(recalled, weight)] if weight else [])], len(rows))
        rows, scores = _best(rows, scores)
        if self.models.late is not None:
            used.append(COLBERT)
            maxsims = self.models.late.maxsims(typed, rows)
            rows, scores = _best(rows, blend_as_specified(scores, maxsims))
        return RankedChunks(rows, scores, tuple(used))

    def legs(self, text: str, rows: NDArray[np.int64]) -> Mapping[str, list[float | int | None]]:
        """Return of chunks their rank in recall, the cosine of E1 and the dot product of E6."""
        typed = positive(text)
        if not typed or not len(rows):
            return {}
        recalled = self.recall.search(typed, RECALLED, None).tolist()
        ranks = {row: at for at, row in enumerate(recalled, start=1)}
        told: dict[str, list[float | int | None]] = {BM25: [ranks.get(r) for r in rows.tolist()]}
        said = self._models(typed, rows)
        return told | {name: leg.scores.tolist() for name, leg in said.items()}

    def _models(self, text: str, rows: NDArray[np.int64]) -> "dict[str, Leg]":
        """Compute what the models that are there say of chunks."""
        legs = {}
        if self.models.dense is not None:
            legs["e1"] = Leg(self.models.dense.cosines(text, rows), DENSE_WEIGHT)
        if self.models.sparse is not None:
            legs["e6"] = Leg(self.models.sparse.dots(text, rows), SPARSE_WEIGHT)
        return legs


def _best(rows: NDArray[np.int64], scores: Scores) -> tuple[NDArray[np.int64], Scores]:
    """Order by score, equal ones by chunk, and keep ``RANKED``."""
    kept = np.lexsort((rows, -scores))[:RANKED]
    return rows[kept], scores[kept]


class Leg(NamedTuple):
    """What one model says of all candidates, and how much it counts."""

    scores: Scores
    weight: float


def clean(scores: Scores) -> Scores:
    """Bring scores to where they can be ordered: what is not a number becomes 0."""
    known = np.where(np.isnan(scores), 0.0, scores)
    return np.round(np.clip(known, 0.0, 1.0), SCORE_DIGITS)


def ranks(scores: Scores) -> Scores:
    """Rank of each candidate from 1; equal scores share the best of their ranks."""
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
