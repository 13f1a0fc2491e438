"""What ``rag:retrieve`` answers, key by key: specification 001, "Contract: rag:retrieve output"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engines.stacks.writing.rerank import Reason


@dataclass(frozen=True, slots=True)
class Item:
    """One snippet."""

    source_ref: str
    snippet: str
    """The exact text that was ranked."""
    score: float
    """Higher is better."""


@dataclass(frozen=True, slots=True)
class Planner:
    """The queries that were run."""

    queries: tuple[str, ...]
    per_query_hits: tuple[int, ...]
    """Of each query."""
    selected_count: int
    """How many candidates became items."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """What the model did."""

    enabled: bool
    reason: Reason | None
    """Why not, where it did nothing."""
    scores: tuple[tuple[str, float], ...]
    """Source reference and cosine of every candidate that the model saw, in the order of FTS."""


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How the items were found."""

    mode: Literal["fulltext", "fulltext_reranked"]
    planner: Planner
    rerank: Reranked
    fallback: str = ""
    """``like`` where no query found anything and the texts themselves were looked into."""


@dataclass(frozen=True, slots=True)
class Response:
    """Items, best first, and how they were found."""

    items: tuple[Item, ...]
    diagnostics: Diagnostics

    def to_json(self) -> dict[str, Any]:
        """Write it with the contract's names; a key that has nothing to say is absent."""
        planner, rerank = self.diagnostics.planner, self.diagnostics.rerank
        told: dict[str, Any] = {"enabled": rerank.enabled}
        if rerank.reason is not None:
            told["reason"] = rerank.reason.value
        if rerank.scores:
            told["scores"] = [{"sourceRef": ref, "score": score} for ref, score in rerank.scores]
        fallback = self.diagnostics.fallback
        return {
            "items": [
                {"sourceRef": item.source_ref, "snippet": item.snippet, "score": item.score}
                for item in self.items
            ],
            "diagnostics": {
                "mode": self.diagnostics.mode,
                "planner": {
                    "queries": list(planner.queries),
                    "perQueryHits": list(planner.per_query_hits),
                    "selectedCount": planner.selected_count,
                },
                "rerank": told,
                **({"fallback": fallback} if fallback else {}),
            },
        }
