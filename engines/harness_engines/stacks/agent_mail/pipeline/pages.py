"""One page of hits of each kind of document, as far as the viewer may see."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from time import perf_counter_ns
from typing import Generic, TypeVar

from harness_engines.contract import SearchError
from harness_engines.stacks.agent_mail import faults
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    DocKind,
    Entity,
    EntityHit,
    MailEngine,
    Message,
    SearchHit,
    SearchQuery,
    Weights,
)
from harness_engines.stacks.agent_mail.pipeline.plan import CursorEngine, FallbackTier, SearchCursor
from harness_engines.stacks.agent_mail.pipeline.retrievers import (
    RankedMessages,
    ScoredMessage,
    TierQuery,
    Tiers,
    digits_of,
)
from harness_engines.stacks.agent_mail.pipeline.scope import REDACTED, Scope, Visibility
from harness_engines.stacks.agent_mail.sqlite import schema
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, LikeEngine
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore

Doc = TypeVar("Doc")
AnyHit = SearchHit | EntityHit

SPARE = 64
"""Candidates fetched first beyond a page of many; scope and deleted messages may ask for more."""
GROWTH = 4


@dataclass(frozen=True, slots=True)
class PageSource(Generic[Doc]):
    """What documents of one kind are searched with."""

    tiers: Tiers
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]]
    """Documents by id; deleted ones are absent."""
    show: Callable[[Sequence[ScoredMessage], Mapping[int, Doc]], Sequence[AnyHit]]
    """Make hits of the documents that are there and are for this viewer."""
    hides: bool = True
    """Whether some of those that are found may not be for this viewer."""


def entities(store: MessageStore, weights: Weights) -> Mapping[DocKind, PageSource[Entity]]:
    """Return what agents and projects are searched with: FTS5, and LIKE where that fails."""

    def tiers(table: str) -> Tiers:
        engines: Mapping[FallbackTier, MailEngine] = {
            FallbackTier.FTS5: Fts5Engine(store, weights, table=table),
            FallbackTier.LIKE: LikeEngine(store, table),
        }
        return Tiers(engines, None, None, lambda _: {})

    def show(hits: Sequence[ScoredMessage], found: Mapping[int, Entity]) -> Sequence[AnyHit]:
        there = ((hit, found[hit.message_id]) for hit in hits if hit.message_id in found)
        return [EntityHit(entity, hit.score, hit.raw_score) for hit, entity in there]

    return {
        DocKind.AGENT: PageSource(tiers(schema.AGENTS), store.agents, show),
        DocKind.PROJECT: PageSource(tiers(schema.PROJECTS), store.projects, show),
    }


_SHOWN = attrgetter(*SearchHit._fields[: SearchHit._fields.index("score")])
"""Reads of a message what a hit shows of it, in the hit's order."""


def messages(
    scope: Scope, hits: Sequence[ScoredMessage], known: Mapping[int, Message]
) -> Sequence[SearchHit]:
    """Show messages as far as ``scope`` allows; redaction hides their subjects and bodies."""
    if scope.whole:
        there = ((known[hit.message_id], hit) for hit in hits if hit.message_id in known)
        rows = ((*_SHOWN(found), hit.score, hit.raw_score, False) for found, hit in there)
        return list(map(partial(tuple.__new__, SearchHit), rows))
    shown: list[SearchHit] = []
    for message_id, score, raw_score, _ in hits:
        found = known.get(message_id)
        verdict = Visibility.ALLOW if found is None else scope.sees(found)
        if found is None or verdict is Visibility.DENY:
            continue
        hidden = verdict is Visibility.REDACT
        hit = SearchHit._make((*_SHOWN(found), score, raw_score, hidden))
        shown.append(hit._replace(subject=REDACTED, body=REDACTED) if hidden else hit)
    return shown


@dataclass(frozen=True, slots=True)
class HitPage:
    """Hits shown, the token of the next page, and what was left out on the way."""

    ranked: RankedMessages
    """What its hits were taken from."""
    hits: tuple[AnyHit, ...] = ()
    next_cursor: str | None = None
    denied: int = 0
    invalidated: bool = False
    scope_us: int = 0
    lost: Mapping[int, str] | None = None
    """Documents that were found and cannot be read, and why; they are left out."""

    @property
    def messages(self) -> tuple[SearchHit, ...]:
        """Hits of a page of messages."""
        return tuple(hit for hit in self.hits if isinstance(hit, SearchHit))

    @property
    def entities(self) -> tuple[EntityHit, ...]:
        """Hits of a page of agents or projects."""
        return tuple(hit for hit in self.hits if isinstance(hit, EntityHit))


NOTHING = HitPage(
    RankedMessages((), CandidateList((), exhausted=True, method="empty", normalized_query=None))
)
"""The page of a query that nothing could answer."""


def fill(
    source: PageSource[Doc],
    tier: FallbackTier,
    query: SearchQuery,
    asked: TierQuery,
    cursor: SearchCursor | None,
) -> HitPage:
    """Read candidates until the page is full or they end.

    Scope is applied to what was retrieved, so denied messages never shorten a page that has more
    to show. The next cursor names the last candidate that was *examined*, shown or not, and all
    that were before. So what was examined comes on no later page, and what was not comes on one of
    them, however writing and deleting moved it meanwhile. First comes what stands after the
    cursor's document, or after its score where that is gone; what has moved before it comes last.
    """
    lost: dict[int, str] = {}
    hydrate = faults.salvaged(source.hydrate, lost)
    limit, least = query.effective_limit, query.effective_min_score
    spare = min(limit, SPARE) if source.hides else 0
    depth = limit + spare + (len(cursor.seen) if cursor else 0)
    while True:
        ranked = source.tiers.rank(tier, asked, depth)
        at = _place(ranked, cursor, hydrate)
        if at is not None:
            left = _left(ranked, cursor, at)
            if least is not None:
                left = [hit for hit in left if hit.score >= least]
            shown: list[AnyHit] = []
            denied = took_ns = end = 0
            while end < len(left) and len(shown) < limit:
                part = left[end : end + limit - len(shown)]
                end += len(part)
                known = hydrate([hit.message_id for hit in part])
                start = perf_counter_ns()
                made = source.show(part, known)
                shown.extend(made)
                denied += len(known) - len(made)
                took_ns += perf_counter_ns() - start
            if len(shown) == limit or ranked.found.exhausted:
                break
        depth *= GROWTH
    next_cursor = None
    if len(shown) == limit:
        last = left[end - 1]
        before = (cursor and cursor.seen) or frozenset(hit.message_id for hit in ranked.hits[:at])
        examined = frozenset(hit.message_id for hit in left[:end])
        where = float(last.key), last.message_id, CursorEngine.of(query.doc_kind, tier)
        next_cursor = SearchCursor(*where, digits_of(query, asked), before | examined).encode()
    invalidated = query.cursor is not None and cursor is None
    return HitPage(ranked, tuple(shown), next_cursor, denied, invalidated, took_ns // 1_000, lost)


def _place(
    ranked: RankedMessages,
    cursor: SearchCursor | None,
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
) -> int | None:
    """Return how many candidates stand before a page; None where more must be read to know."""
    if cursor is None:
        return 0
    try:
        lives = cursor.message_id in hydrate([cursor.message_id])
    except SearchError:
        lives = True
    if lives:
        for at, hit in enumerate(ranked.hits, start=1):
            if hit.message_id == cursor.message_id:
                return at
        if not ranked.found.exhausted:
            return None
    last = (-cursor.score, cursor.message_id)
    return bisect_right(ranked.hits, last, key=lambda hit: (-hit.key, hit.message_id))


def _left(ranked: RankedMessages, cursor: SearchCursor | None, at: int) -> Sequence[ScoredMessage]:
    """Return the candidates that no page has examined, those from the place ``at`` on first."""
    if cursor is None or not cursor.seen:
        return ranked.hits[at:]
    moved = ranked.hits[:at] if ranked.found.exhausted else ()
    return [hit for hit in (*ranked.hits[at:], *moved) if hit.message_id not in cursor.seen]
