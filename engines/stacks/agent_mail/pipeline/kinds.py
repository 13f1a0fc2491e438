"""The kinds of document: by what each is ranked, read and shown (section 2.2, rule 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from engines.stacks.agent_mail.contract.directory import Entity
from engines.stacks.agent_mail.contract.lifecycle import MailEngine, Message
from engines.stacks.agent_mail.contract.query import DocKind
from engines.stacks.agent_mail.contract.results import EntityHit, SearchHit
from engines.stacks.agent_mail.pipeline.cursor import CursorEngine
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.ranked import Scored, ScoredColumns
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


class Shown(NamedTuple):
    """Hits made of candidates, in their order, and how many were denied or redacted."""

    hits: Sequence[AnyHit]
    denied: int = 0
    redacted: int = 0


@dataclass(frozen=True, slots=True)
class Source(Generic[Doc]):
    """What documents of one kind are searched with."""

    tiers: Tiers
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]]
    """Documents by id; deleted ones are absent."""
    show: Callable[[Sequence[Scored], Mapping[int, Doc]], Shown]
    """Make hits of the documents that are there and are for this viewer."""


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
        DocKind.AGENT: Source(tiers(schema.AGENTS), known.agents, _entities),
        DocKind.PROJECT: Source(tiers(schema.PROJECTS), known.projects, _entities),
    }


_SHOWN = attrgetter(*SearchHit._fields[: SearchHit._fields.index("score")])
"""Reads of a message what a hit shows of it, in the hit's order."""


def messages(scope: Scope, hits: Sequence[Scored], known: Mapping[int, Message]) -> Shown:
    """Show messages as far as ``scope`` allows; redaction hides their subjects and bodies."""
    columns = ScoredColumns.of(hits)
    if scope.whole:
        return _all(columns, known)
    shown: list[SearchHit] = []
    denied = redacted = 0
    for message_id, score, raw_score in zip(
        columns.message_ids, columns.scores, columns.raw_scores, strict=True
    ):
        found = known.get(message_id)
        if found is None:
            continue
        verdict = scope.sees(found)
        if verdict is Visibility.DENY:
            denied += 1
            continue
        hidden = verdict is not Visibility.ALLOW
        redacted += hidden
        hit = SearchHit(
            message_id,
            found.project_id,
            REDACTED if hidden else found.subject,
            REDACTED if hidden else found.body,
            found.sender_name,
            found.thread_id,
            found.importance,
            found.ack_required,
            found.created_ts,
            score,
            raw_score,
            hidden,
        )
        shown.append(hit)
    return Shown(shown, denied, redacted)


def _all(columns: ScoredColumns, known: Mapping[int, Message]) -> Shown:
    """Show every message that is there, by one step each: a page may have a thousand."""
    found = map(known.get, columns.message_ids)
    make, read = tuple.__new__, _SHOWN
    return Shown([
        make(SearchHit, (*read(message), score, raw_score, False))
        for message, score, raw_score in zip(found, columns.scores, columns.raw_scores, strict=True)
        if message is not None
    ])


def _entities(hits: Sequence[Scored], known: Mapping[int, Entity]) -> Shown:
    there = ((hit, known[hit.message_id]) for hit in hits if hit.message_id in known)
    return Shown([EntityHit(entity, hit.score, hit.raw_score) for hit, entity in there])
