"""What a caller may ask for: the V3 query, its defaults and its limits (section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

LIMIT_DEFAULT, MAX_LIMIT = 50, 1_000
RERANK_DEFAULT, MIN_RERANK, MAX_RERANK = 100, 10, 1_000
RRF_DEFAULT, MAX_RRF = 60, 1_000


class SearchMode(StrEnum):
    """Section 1.1."""

    LEXICAL = "lexical"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    HYBRID_RERANK = "hybrid_rerank"


class DocKind(StrEnum):
    """What kind of thing is searched for."""

    MESSAGE = "message"
    AGENT = "agent"
    PROJECT = "project"


class Importance(StrEnum):
    """How pressing a message is."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class Direction(StrEnum):
    """Whether ``agent_name`` received a message or sent it."""

    INBOX = "inbox"
    OUTBOX = "outbox"


class RankingMode(StrEnum):
    """Section 3.1."""

    RELEVANCE = "relevance"
    RECENCY = "recency"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Inclusive bounds, microseconds since 1970 UTC; None is open."""

    min_ts: int | None = None
    max_ts: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is excluded."""
        return self.min_ts is None and self.max_ts is None


@dataclass(frozen=True, slots=True)
class Filters:
    """The complete catalogue of section 7.1 but for ``min_score``; all are ANDed together.

    Values within ``importance`` are ORed. ``product_projects`` are the projects of the product
    asked for; None where no product was.
    """

    project_id: int | None = None
    product_projects: frozenset[int] | None = None
    importance: frozenset[Importance] = frozenset()
    direction: Direction | None = None
    agent_name: str | None = None
    thread_id: str | None = None
    ack_required: bool | None = None
    time_range: TimeRange = field(default_factory=TimeRange)
    sender_name: str | None = None
    recipient_name: str | None = None


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One query. Every field but ``text`` has the default that V2 had (section 2.1)."""

    text: str
    mode: SearchMode = SearchMode.LEXICAL
    doc_kind: DocKind = DocKind.MESSAGE
    project_id: int | None = None
    product_id: int | None = None
    importance: tuple[Importance, ...] = ()
    direction: Direction | None = None
    agent_name: str | None = None
    thread_id: str | None = None
    ack_required: bool | None = None
    time_range: TimeRange = field(default_factory=TimeRange)
    sender_name: str | None = None
    recipient_name: str | None = None
    min_score: float | None = None
    ranking: RankingMode = RankingMode.RELEVANCE
    limit: int | None = None
    cursor: str | None = None
    explain: bool = False
    rerank_top_k: int | None = None
    rrf_k: int | None = None

    @property
    def effective_limit(self) -> int:
        """Hits on a page: 50 where none is named, held within 1..1000."""
        asked = LIMIT_DEFAULT if self.limit is None else self.limit
        return min(max(asked, 1), MAX_LIMIT)

    @property
    def effective_min_score(self) -> float | None:
        """Threshold of scores; None where none is named, and where it is not a number."""
        asked = self.min_score
        return None if asked is None or math.isnan(asked) else asked

    @property
    def effective_rerank_top_k(self) -> int:
        """Candidates to rerank: 100 where none is named, held within 10..1000."""
        asked = RERANK_DEFAULT if self.rerank_top_k is None else self.rerank_top_k
        return min(max(asked, MIN_RERANK), MAX_RERANK)

    @property
    def effective_rrf_k(self) -> int:
        """Constant of reciprocal rank fusion: 60 where none is named, held within 1..1000."""
        asked = RRF_DEFAULT if self.rrf_k is None else self.rrf_k
        return min(max(asked, 1), MAX_RRF)
