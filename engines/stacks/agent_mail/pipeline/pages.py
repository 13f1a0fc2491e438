"""One page of hits: after the cursor, above the threshold, as far as the viewer may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import NamedTuple, Self

from engines.contract.errors import SearchError
from engines.stacks.agent_mail.contract.results import EntityHit, SearchHit
from engines.stacks.agent_mail.pipeline.cursor import ANCHORS, CursorEngine, SearchCursor
from engines.stacks.agent_mail.pipeline.kinds import AnyHit, Doc
from engines.stacks.agent_mail.pipeline.ranked import Clock, Ranked, Scored

FIRST_DEPTH = 2
"""Candidates fetched first, in pages; scope and deleted messages may ask for more."""
GROWTH = 4


@dataclass(frozen=True, slots=True)
class Page:
    """Hits shown, the token of the next page, and what was left out on the way."""

    hits: tuple[AnyHit, ...]
    next_cursor: str | None
    denied: int
    redacted: int
    invalidated: bool
    method: str
    normalized_query: str | None
    sql: str
    used_like_fallback: bool
    note: str
    scope_us: int
    clock: Clock = field(default_factory=Clock)
    unread: int = 0
    """Messages that were found and cannot be read; they are left out."""

    @property
    def messages(self) -> tuple[SearchHit, ...]:
        """Hits that are messages."""
        return tuple(hit for hit in self.hits if isinstance(hit, SearchHit))

    @property
    def entities(self) -> tuple[EntityHit, ...]:
        """Hits that are agents or projects."""
        return tuple(hit for hit in self.hits if isinstance(hit, EntityHit))

    @classmethod
    def empty(cls) -> Self:
        """Give the page of a question that nothing could answer."""
        return cls(
            hits=(),
            next_cursor=None,
            denied=0,
            redacted=0,
            invalidated=False,
            method="empty",
            normalized_query=None,
            sql="",
            used_like_fallback=False,
            note="",
            scope_us=0,
        )


def fill(
    rank: Callable[[int], Ranked],
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
    show: Callable[[Scored, Doc], AnyHit | None],
    *,
    limit: int,
    min_score: float | None,
    cursor: SearchCursor | None,
    engine: CursorEngine,
    invalidated: bool,
) -> Page:
    """Read candidates until the page is full or they end.

    Scope is applied to what was retrieved, so denied messages never shorten a page that has more
    to show. The next cursor names the last candidate that was *examined*, shown or not. A page
    begins after the document that its cursor names, wherever that stands now, for what was written
    or deleted since may have changed all scores. Where that is gone, it begins after the nearest
    shown before it that is still there; where all those are gone, after its score.
    """
    depth = FIRST_DEPTH * limit
    while True:
        ranked = rank(depth)
        after = _after(ranked, cursor, hydrate)
        if after is not None:
            left = [hit for hit in after if min_score is None or hit.score >= min_score]
            seen = _look(left, hydrate, show, limit)
            if len(seen.shown) == limit or ranked.exhausted:
                break
        depth *= GROWTH
    full = len(seen.shown) == limit and seen.last is not None
    return Page(
        hits=seen.shown,
        next_cursor=_next(seen.last, seen.shown, cursor, engine) if full and seen.last else None,
        denied=seen.denied,
        redacted=seen.redacted,
        invalidated=invalidated,
        method=ranked.method,
        normalized_query=ranked.normalized_query,
        sql=ranked.sql,
        used_like_fallback=ranked.used_like_fallback,
        note=ranked.note,
        scope_us=seen.scope_us,
        clock=ranked.clock,
    )


def _after(
    ranked: Ranked,
    cursor: SearchCursor | None,
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
) -> Sequence[Scored] | None:
    """Give the candidates behind a cursor; None where more must be read to know which these are."""
    if cursor is None:
        return ranked.hits
    anchors = (cursor.message_id, *cursor.before)
    there = _alive(anchors, hydrate)
    stands = {hit.message_id: at for at, hit in enumerate(ranked.hits)}
    for anchor in anchors:
        if anchor in there and anchor in stands:
            return ranked.hits[stands[anchor] + 1 :]
        if anchor in there and not ranked.exhausted:
            return None
    last = (-cursor.score, cursor.message_id)
    return [hit for hit in ranked.hits if (-hit.key, hit.message_id) > last]


def _alive(
    anchors: Sequence[int], hydrate: Callable[[Sequence[int]], Mapping[int, Doc]]
) -> Collection[int]:
    """Say which documents are still there; one that cannot be read is.

    An index may hold a deleted document, and then not where it stood.
    """
    try:
        return hydrate(anchors).keys()
    except SearchError:
        return anchors


def _next(
    last: Scored, shown: Sequence[AnyHit], cursor: SearchCursor | None, engine: CursorEngine
) -> str:
    """Write the token of the page after ``last``; it names the hits before that as well."""
    ids = [hit.message_id if isinstance(hit, SearchHit) else hit.doc_id for hit in reversed(shown)]
    earlier = (cursor.message_id, *cursor.before) if cursor else ()
    before = [at for at in (*ids, *earlier) if at != last.message_id][:ANCHORS]
    return SearchCursor(float(last.key), last.message_id, engine, tuple(before)).encode()


class _Seen(NamedTuple):
    shown: tuple[AnyHit, ...]
    last: Scored | None
    denied: int
    redacted: int
    scope_us: int


def _look(
    left: Sequence[Scored],
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
    show: Callable[[Scored, Doc], AnyHit | None],
    limit: int,
) -> _Seen:
    """Examine candidates in order until ``limit`` may be shown; deleted ones are passed over.

    No more are read than the page may need, for reading one takes longer than finding it.
    """
    shown: list[AnyHit] = []
    last: Scored | None = None
    denied = took_ns = at = 0
    while at < len(left) and len(shown) < limit:
        part = left[at : at + limit - len(shown)]
        at += len(part)
        known = hydrate([hit.message_id for hit in part])
        start = perf_counter_ns()
        last = part[-1]
        for hit in part:
            if hit.message_id not in known:
                continue
            made = show(hit, known[hit.message_id])
            if made is None:
                denied += 1
            else:
                shown.append(made)
        took_ns += perf_counter_ns() - start
    redacted = sum(isinstance(hit, SearchHit) and hit.redacted for hit in shown)
    return _Seen(tuple(shown), last, denied, redacted, took_ns // 1_000)
