"""Messages by the cosine of their vector with the query's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.stacks.agent_mail.contract.lifecycle import Candidate, CandidateList
from engines.stacks.agent_mail.contract.query import Filters
from engines.vector.embedder import Embedder


class VectorIndex(Protocol):
    """Exact search over vectors of messages."""

    def search(
        self, query: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None
    ) -> Sequence[tuple[int, float]]:
        """Give at most ``k`` pairs of message id and cosine, best first; None allows all."""
        ...


class Nearest(Protocol):
    """Messages by meaning."""

    def search(self, text: str, filters: Filters, depth: int) -> CandidateList:
        """Give at most ``depth`` messages that pass ``filters``, nearest first."""
        ...


@dataclass(frozen=True, slots=True)
class Semantic:
    """A vector index and the embedder that it was made with."""

    embedder: Embedder
    index: VectorIndex
    matching: Callable[[Filters], NDArray[np.int64]]
    """Sorted ids of the messages that pass filters: they apply before ranking."""
    every: bool = True
    """Whether without a filter every vector competes; else those that ``matching`` gives."""

    def search(self, text: str, filters: Filters, depth: int) -> CandidateList:
        """Give at most ``depth`` messages, nearest first; none at a right angle or beyond."""
        allowed = None if self.every and filters == Filters() else self.matching(filters)
        query = self.embedder.embed([text])[0]
        nearest = self.index.search(query, depth, allowed)
        return CandidateList(
            tuple(Candidate(message_id, cosine) for message_id, cosine in nearest if cosine > 0),
            exhausted=len(nearest) < depth,
            method="vector",
            normalized_query=text,
        )
