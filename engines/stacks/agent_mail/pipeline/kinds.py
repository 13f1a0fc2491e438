"""The kinds of document: by what each is ranked, read and shown (section 2.2, rule 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from engines.stacks.agent_mail.contract.directory import Entity
from engines.stacks.agent_mail.contract.lifecycle import MailEngine, Message
from engines.stacks.agent_mail.contract.query import DocKind
from engines.stacks.agent_mail.contract.results import EntityHit, SearchHit
from engines.stacks.agent_mail.pipeline.cursor import CursorEngine
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.ranked import Scored
from engines.stacks.agent_mail.pipeline.retrievers import Tiers
from engines.stacks.agent_mail.pipeline.scope import REDACTED, Scope, Visibility
from engines.stacks.agent_mail.sqlite import schema
from engines.stacks.agent_mail.sqlite.directory import Directory
from engines.stacks.agent_mail.sqlite.fts5 import Fts5Engine, Weights
from engines.stacks.agent_mail.sqlite.like import LikeEngine
from engines.stacks.agent_mail.sqlite.store import MessageStore

Doc = TypeVar("Doc")
AnyHit = SearchHit | EntityHit

CURSOR_OF = {
    (DocKind.MESSAGE, FallbackTier.RERANK): CursorEngine.HYBRID_RERANK,
    (DocKind.MESSAGE, FallbackTier.HYBRID): CursorEngine.HYBRID,
    (DocKind.MESSAGE, FallbackTier.SEMANTIC): CursorEngine.SEMANTIC,
    (DocKind.MESSAGE, FallbackTier.TANTIVY): CursorEngine.TANTIVY,
    (DocKind.MESSAGE, FallbackTier.FTS5): CursorEngine.FTS5,
    (DocKind.MESSAGE, FallbackTier.LIKE): CursorEngine.LIKE,
    (DocKind.AGENT, FallbackTier.FTS5): CursorEngine.AGENTS,
    (DocKind.AGENT, FallbackTier.LIKE): CursorEngine.AGENTS_LIKE,
    (DocKind.PROJECT, FallbackTier.FTS5): CursorEngine.PROJECTS,
    (DocKind.PROJECT, FallbackTier.LIKE): CursorEngine.PROJECTS_LIKE,
}


@dataclass(frozen=True, slots=True)
class Source(Generic[Doc]):
    """What documents of one kind are searched with."""

    tiers: Tiers
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]]
    """Documents by id; deleted ones are absent."""
    show: Callable[[Scored, Doc], AnyHit | None]
    """Make a hit; None where the document is not for this viewer."""


def entities(store: MessageStore, weights: Weights) -> Mapping[DocKind, Source[Entity]]:
    """Give what agents and projects are searched with: FTS5, and LIKE where that fails."""
    known = Directory(store)

    def tiers(table: str) -> Tiers:
        engines: Mapping[FallbackTier, MailEngine] = {
            FallbackTier.FTS5: Fts5Engine(store, weights, table=table),
            FallbackTier.LIKE: LikeEngine(store, table),
        }
        return Tiers(engines, None, None, lambda _: {})

    return {
        DocKind.AGENT: Source(tiers(schema.AGENTS), known.agents, _entity),
        DocKind.PROJECT: Source(tiers(schema.PROJECTS), known.projects, _entity),
    }


def message(scope: Scope, hit: Scored, found: Message) -> SearchHit | None:
    """Show a message as far as ``scope`` allows; redaction hides its subject and its body."""
    verdict = scope.sees(found)
    if verdict is Visibility.DENY:
        return None
    hidden = verdict is Visibility.REDACT
    return SearchHit(
        message_id=found.message_id,
        project_id=found.project_id,
        subject=REDACTED if hidden else found.subject,
        body=REDACTED if hidden else found.body,
        sender_name=found.sender_name,
        thread_id=found.thread_id,
        importance=found.importance,
        ack_required=found.ack_required,
        created_ts=found.created_ts,
        score=hit.score,
        raw_score=hit.raw_score,
        redacted=hidden,
    )


def _entity(hit: Scored, entity: Entity) -> EntityHit:
    return EntityHit(entity, hit.score, hit.raw_score)
