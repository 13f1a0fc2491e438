"""One page of hits: after the cursor, above the threshold, as far as the viewer may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import NamedTuple, Self

from engines.contract.mail.lifecycle import Message
from engines.contract.mail.results import SearchHit
from engines.stacks.agent_mail.cursor import CursorEngine, SearchCursor
from engines.stacks.agent_mail.ranked import Clock, Ranked, Scored
from engines.stacks.agent_mail.scope import REDACTED, Scope, Visibility

FIRST_DEPTH = 2
"""Candidates fetched first, in pages; scope and deleted messages may ask for more."""
GROWTH = 4


@dataclass(frozen=True, slots=True)
class Page:
    """Hits shown, the token of the next page, and what was left out on the way."""

    hits: tuple[SearchHit, ...]
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
    hydrate: Callable[[Sequence[int]], Mapping[int, Message]],
    scope: Scope,
    *,
    limit: int,
    min_score: float | None,
    cursor: SearchCursor | None,
    engine: CursorEngine,
    invalidated: bool,
) -> Page:
    """Read candidates until the page is full or they end.

    Scope is applied to what was retrieved, so denied messages never shorten a page that has more
    to show. The next cursor names the last candidate that was *examined*, shown or not.
    """
    depth = FIRST_DEPTH * limit
    while True:
        ranked = rank(depth)
        left = [hit for hit in ranked.hits if _is_wanted(hit, min_score, cursor)]
        seen = _look(left, hydrate, scope, limit)
        if len(seen.shown) == limit or ranked.exhausted:
            break
        depth *= GROWTH
    full = len(seen.shown) == limit and seen.last is not None
    return Page(
        hits=seen.shown,
        next_cursor=SearchCursor(seen.last.key, seen.last.message_id, engine).encode()
        if full and seen.last
        else None,
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


class _Seen(NamedTuple):
    shown: tuple[SearchHit, ...]
    last: Scored | None
    denied: int
    redacted: int
    scope_us: int


def _look(
    left: Sequence[Scored],
    hydrate: Callable[[Sequence[int]], Mapping[int, Message]],
    scope: Scope,
    limit: int,
) -> _Seen:
    """Examine candidates in order until ``limit`` may be shown; deleted ones are passed over."""
    messages = hydrate([hit.message_id for hit in left])
    start = perf_counter_ns()
    shown: list[SearchHit] = []
    last: Scored | None = None
    denied = redacted = 0
    for hit in left:
        if len(shown) == limit:
            break
        last = hit
        message = messages.get(hit.message_id)
        if message is None:
            continue
        verdict = scope.verdict(message)
        if verdict is Visibility.DENY:
            denied += 1
            continue
        redacted += verdict is Visibility.REDACT
        shown.append(_hit(hit, message, hidden=verdict is Visibility.REDACT))
    scope_us = (perf_counter_ns() - start) // 1_000
    return _Seen(tuple(shown), last, denied, redacted, scope_us)


def _hit(hit: Scored, message: Message, *, hidden: bool) -> SearchHit:
    """Show a message; redaction hides its subject and its body (decision 10)."""
    return SearchHit(
        message_id=message.message_id,
        project_id=message.project_id,
        subject=REDACTED if hidden else message.subject,
        body=REDACTED if hidden else message.body,
        sender_name=message.sender_name,
        thread_id=message.thread_id,
        importance=message.importance,
        ack_required=message.ack_required,
        created_ts=message.created_ts,
        score=hit.score,
        raw_score=hit.raw_score,
        redacted=hidden,
    )


def _is_wanted(hit: Scored, min_score: float | None, cursor: SearchCursor | None) -> bool:
    """Tell whether a hit reaches the threshold and comes after the cursor."""
    if min_score is not None and hit.score < min_score:
        return False
    if cursor is None:
        return True
    return (-hit.key, hit.message_id) > (-cursor.score, cursor.message_id)
