"""Late interaction: every token of the query finds the token of the text that is nearest to it.

Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via Contextualized Late
Interaction over BERT", SIGIR 2020, section 3.3. Their model was trained for it; here the token
vectors are those of the sentence encoder that the dense leg has anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

from engines.rerank.token_store import Tokens
from engines.rerank.window import Reranked
from engines.vector.embedder import TokenEmbedder
from engines.vector.scan import COSINE_DIGITS

FUSED_WEIGHT = 0.4
"""As the specification of the documents stack blends; what it gains is in ``docs/field.md``."""

Half = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """Blends a window's fused scores with its MaxSim."""

    embedder: TokenEmbedder
    tokens: Tokens
    fused_weight: float
    """Share of the min-maxed fused score in the blend; MaxSim has the rest."""

    @property
    def identity(self) -> str:
        return self.identity_of(self.embedder, self.fused_weight)

    @staticmethod
    def identity_of(embedder: TokenEmbedder, fused_weight: float) -> str:
        """Name what reranks before there are token vectors."""
        return f"maxsim 1, fused {fused_weight}, {embedder.identity}"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Score fused_weight * min-maxed fused score + (1 - fused_weight) * min-maxed MaxSim.

        Both are spread over the window, so its best in both has 1 and its worst in both 0;
        ``raw_score`` is MaxSim, a mean of cosines.

        Raises:
            EngineError: a candidate has no token vectors.
        """
        query = self.embedder.read([text]).tokens[0].astype(np.float16)
        similar = np.array([maxsim(query, self.tokens.of(one)) for one in ids])
        ours = 1.0 - self.fused_weight
        blend = self.fused_weight * spread(np.array(fused)) + ours * spread(similar)
        held = np.clip(np.round(blend, COSINE_DIGITS), 0.0, 1.0)
        pairs = zip(held.tolist(), similar.tolist(), strict=True)
        return [Reranked(score, raw) for score, raw in pairs]


def maxsim(query: Half, text: Half) -> float:
    """Mean over the query's tokens of the highest cosine with a token of the text.

    Both are rows of unit vectors, shapes (tokens, dimension). The paper adds up instead; over one
    query the order is the same, and a mean stays within [-1, 1]. Rounded to ``COSINE_DIGITS``,
    below which processors differ. A text without a token is like nothing: 0.
    """
    if not len(query) or not len(text):
        return 0.0
    cosines = np.empty((len(query), len(text)))
    numkong.cdist(query, np.asarray(text), "dot", out=cosines)
    return round(float(cosines.max(axis=1).mean()), COSINE_DIGITS)


def spread(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Min-max over a window: (score - lowest) / (highest - lowest); equal ones are all 1."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    if low == high:
        return np.ones(len(scores))
    spread_out: NDArray[np.float64] = (scores - low) / (high - low)
    return spread_out
