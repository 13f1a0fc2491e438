"""One page of hits of each kind of document, as far as the viewer may see."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from time import perf_counter_ns
from typing import Generic, NamedTuple, Self, TypeVar, cast

from engines.contract import SearchError
from engines.stacks.agent_mail.contract import (
    DocKind,
    Entity,
    EntityHit,
    ExplainTiming,
    MailEngine,
    Message,
    QueryExplain,
    SearchHit,
    SearchQuery,
    ShadowComparison,
)
from engines.stacks.agent_mail.pipeline.plan import (
    MODE_OF,
    CursorEngine,
    FallbackTier,
    Plan,
    SearchCursor,
)
from engines.stacks.agent_mail.pipeline.retrievers import (
    Ranked,
    Scored,
    ScoredColumns,
    Tiers,
)
from engines.stacks.agent_mail.pipeline.scope import REDACTED, Scope, Visibility
from engines.stacks.agent_mail.sqlite import schema
from engines.stacks.agent_mail.sqlite.directory import Directory
from engines.stacks.agent_mail.sqlite.search import Fts5Engine, LikeEngine, Weights
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
    """Return what agents and projects are searched with: FTS5, and LIKE where that fails."""
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
        hit = SearchHit._make((*_SHOWN(found), score, raw_score, hidden))
        shown.append(hit._replace(subject=REDACTED, body=REDACTED) if hidden else hit)
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


SPARE = 64
"""Candidates fetched first beyond a page of many; scope and deleted messages may ask for more."""
GROWTH = 4


@dataclass(frozen=True, slots=True)
class Page:
    """Hits shown, the token of the next page, and what was left out on the way."""

    hits: tuple[AnyHit, ...]
    next_cursor: str | None
    denied: int
    redacted: int
    invalidated: bool
    ranked: Ranked
    """What its hits were taken from."""
    scope_us: int
    unread: int = 0
    """Messages that were found and cannot be read; they are left out."""

    @property
    def messages(self) -> tuple[SearchHit, ...]:
        """Hits of a page of messages; all of a page are of one kind."""
        of_messages = isinstance(next(iter(self.hits), None), SearchHit)
        return cast("tuple[SearchHit, ...]", self.hits) if of_messages else ()

    @property
    def entities(self) -> tuple[EntityHit, ...]:
        """Hits of a page of agents or projects."""
        of_entities = isinstance(next(iter(self.hits), None), EntityHit)
        return cast("tuple[EntityHit, ...]", self.hits) if of_entities else ()

    @classmethod
    def empty(cls) -> Self:
        """Return the page of a query that nothing could answer."""
        nothing = Ranked((), exhausted=True, method="empty")
        return cls((), None, 0, 0, invalidated=False, ranked=nothing, scope_us=0)


def fill(
    rank: Callable[[int], Ranked],
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
    show: Callable[[Sequence[Scored], Mapping[int, Doc]], Shown],
    *,
    limit: int,
    min_score: float | None,
    cursor: SearchCursor | None,
    engine: CursorEngine,
    digest: Callable[[], str],
    invalidated: bool,
) -> Page:
    """Read candidates until the page is full or they end.

    Scope is applied to what was retrieved, so denied messages never shorten a page that has more
    to show. The next cursor names the last candidate that was *examined*, shown or not, and all
    that were before. So what was examined comes on no later page, and what was not comes on one of
    them, however writing and deleting moved it meanwhile. First comes what stands after the
    cursor's document, or after its score where that is gone; what has moved before it comes last.
    """
    depth = limit + min(limit, SPARE) + (len(cursor.seen) if cursor else 0)
    while True:
        ranked = rank(depth)
        at = _place(ranked, cursor, hydrate)
        if at is not None:
            left = _left(ranked, cursor, at)
            if min_score is not None:
                left = [hit for hit in left if hit.score >= min_score]
            seen = _look(left, hydrate, show, limit)
            if len(seen.shown) == limit or ranked.exhausted:
                break
        depth *= GROWTH
    next_cursor = None
    if len(seen.shown) == limit and seen.last is not None:
        passed = frozenset(ScoredColumns.of(ranked.hits[:at]).message_ids)
        before = (cursor and cursor.seen) or passed
        where = float(seen.last.key), seen.last.message_id
        next_cursor = SearchCursor(*where, engine, digest(), before | seen.examined).encode()
    return Page(
        seen.shown, next_cursor, seen.denied, seen.redacted, invalidated, ranked, seen.scope_us
    )


def _place(
    ranked: Ranked,
    cursor: SearchCursor | None,
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
) -> int | None:
    """Return how many candidates stand before a page; None where more must be read to know."""
    if cursor is None:
        return 0
    if _lives(cursor.message_id, hydrate):
        for at, hit in enumerate(ranked.hits, start=1):
            if hit.message_id == cursor.message_id:
                return at
        if not ranked.exhausted:
            return None
    last = (-cursor.score, cursor.message_id)
    return bisect_right(ranked.hits, last, key=lambda hit: (-hit.key, hit.message_id))


def _left(ranked: Ranked, cursor: SearchCursor | None, at: int) -> Sequence[Scored]:
    """Return the candidates that no page has examined, those from the place ``at`` on first.

    A token without what was examined takes everything before the place for examined.
    """
    if cursor is None or not cursor.seen:
        return ranked.hits[at:]
    moved = ranked.hits[:at] if ranked.exhausted else ()
    return [hit for hit in (*ranked.hits[at:], *moved) if hit.message_id not in cursor.seen]


def _lives(document: int, hydrate: Callable[[Sequence[int]], Mapping[int, Doc]]) -> bool:
    """Return whether a document is still there; one that cannot be read is.

    An index may hold a deleted document, and then not where it stood.
    """
    try:
        return document in hydrate([document])
    except SearchError:
        return True


class _Seen(NamedTuple):
    shown: tuple[AnyHit, ...]
    last: Scored | None
    examined: frozenset[int]
    denied: int
    redacted: int
    scope_us: int


def _look(
    left: Sequence[Scored],
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
    show: Callable[[Sequence[Scored], Mapping[int, Doc]], Shown],
    limit: int,
) -> _Seen:
    """Examine candidates in order until ``limit`` may be shown; deleted ones are passed over.

    No more are read than the page may need, for reading one takes longer than finding it.
    """
    columns = ScoredColumns.of(left)
    shown: list[AnyHit] = []
    last: Scored | None = None
    denied = redacted = took_ns = at = 0
    while at < len(left) and len(shown) < limit:
        part = columns[at : at + limit - len(shown)]
        at += len(part)
        known = hydrate(part.message_ids)
        start = perf_counter_ns()
        last = left[at - 1]
        made = show(part, known)
        shown.extend(made.hits)
        denied += made.denied
        redacted += made.redacted
        took_ns += perf_counter_ns() - start
    examined = frozenset(columns.message_ids[:at])
    return _Seen(tuple(shown), last, examined, denied, redacted, took_ns // 1_000)


def explained(
    query: SearchQuery,
    planned: Plan,
    page: Page,
    tier: FallbackTier,
    *,
    scope: Scope,
    reasons: Sequence[str],
    compared: ShadowComparison | None,
    downgraded: bool,
    total_us: int,
) -> QueryExplain:
    """Assemble what is told of ``tier``'s answer; ``reasons`` in the order they came up."""
    ranked, clock, said = page.ranked, page.ranked.clock, "; ".join(reasons)
    by_like = ranked.used_like_fallback
    return QueryExplain(
        method=ranked.method,
        normalized_query=None if by_like else ranked.normalized_query,
        used_like_fallback=by_like,
        facet_count=len(planned.facets),
        facets_applied=planned.facets,
        sql=ranked.sql,
        scope_policy=scope.policy,
        denied_count=page.denied if scope.audited else 0,
        redacted_count=page.redacted,
        requested_mode=query.mode,
        actual_mode=MODE_OF[tier],
        engine=tier.value,
        mode_downgraded=downgraded,
        downgrade_reason=said if downgraded else None,
        timing=ExplainTiming(
            total_us,
            clock.lexical_us,
            clock.vector_us,
            clock.fusion_us,
            clock.rerank_us,
            page.scope_us,
        ),
        cursor_invalidated=page.invalidated,
        shadow=compared,
        note="; ".join(filter(None, (said, ranked.note))),
    )
