"""What a caller gets: hits, the way to the next page, and how the query was served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engines.stacks.agent_mail.contract.directory import Agent, Entity
from engines.stacks.agent_mail.contract.explain import QueryExplain
from engines.stacks.agent_mail.contract.query import DocKind, Importance


class SearchHit(NamedTuple):
    """A message shown. ``score`` is in [0, 1], higher is better; ``raw_score`` is the engine's."""

    message_id: int
    project_id: int
    subject: str
    body: str
    sender_name: str
    thread_id: str
    importance: Importance
    ack_required: bool
    created_ts: int
    score: float
    raw_score: float
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class EntityHit:
    """An agent or a project shown, with scores as in ``SearchHit``."""

    entity: Entity
    score: float
    raw_score: float

    @property
    def doc_kind(self) -> DocKind:
        """What it is."""
        return DocKind.AGENT if isinstance(self.entity, Agent) else DocKind.PROJECT

    @property
    def doc_id(self) -> int:
        """Id within its kind; equal scores are ordered by it."""
        entity = self.entity
        return entity.agent_id if isinstance(entity, Agent) else entity.project_id


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """One page. ``explain`` is always made; a surface shows it where it was requested."""

    hits: tuple[SearchHit, ...]
    """Messages, where messages were requested."""
    next_cursor: str | None
    explain: QueryExplain
    served_by: str
    """Fingerprint of what really answered."""
    fell_back: bool = False
    """Whether a tier answered that is not the first of its chain."""
    entities: tuple[EntityHit, ...] = ()
    """Agents or projects, where those were requested."""
    unread: int = 0
    """Messages that were found, and left out because they cannot be read."""
    stale: bool = False
    """Whether messages changed that the engine that answered may not know."""

    @property
    def degraded(self) -> bool:
        """Whether something other than what was requested answered."""
        explain = self.explain
        other = explain.mode_downgraded or explain.used_like_fallback
        return other or self.fell_back or self.stale or self.unread > 0
