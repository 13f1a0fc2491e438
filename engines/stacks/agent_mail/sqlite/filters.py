"""The filters of section 7.1 as one condition on ``messages AS m``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from engines.stacks.agent_mail.contract.query import Direction, Filters, TimeRange
from engines.stacks.agent_mail.sqlite.connecting import Param

LEAST, MOST = -(2**63), 2**63 - 1
"""What SQLite holds as an integer; no message has a number beyond."""

_SENT_BY = "m.sender_id IN (SELECT id FROM agents WHERE name = ?)"
_SENT_TO = (
    "m.id IN (SELECT r.message_id FROM recipients AS r"
    " JOIN agents AS a ON a.id = r.agent_id WHERE a.name = ?)"
)


class Where(NamedTuple):
    """A condition, without the word WHERE, and the values of its placeholders."""

    sql: str
    params: tuple[Param, ...]


EVERYTHING = Where("1", ())


def where(filters: Filters) -> Where:
    """AND all that is requested; ``EVERYTHING`` where nothing is.

    A project wins over a product (section 7.2). A direction without an agent filters nothing; an
    agent without a direction is the sender or a recipient.
    """
    parts = tuple(_parts(filters))
    if not parts:
        return EVERYTHING
    sql = " AND ".join(part.sql for part in parts)
    return Where(sql, tuple(param for part in parts for param in part.params))


def _parts(filters: Filters) -> Iterator[Where]:
    if filters.project_id is not None:
        yield _projects((filters.project_id,))
    elif filters.product_projects is not None:
        yield _projects(tuple(sorted(filters.product_projects)))
    if filters.importance:
        values = tuple(sorted(level.value for level in filters.importance))
        yield Where(f"m.importance IN ({', '.join('?' * len(values))})", values)
    if filters.agent_name is not None:
        yield _agent(filters.direction, _name(filters.agent_name))
    if filters.ack_required is not None:
        yield Where("m.ack_required = ?", (int(filters.ack_required),))
    for sql, name in (
        ("m.thread_id = ?", filters.thread_id),
        (_SENT_BY, filters.sender_name),
        (_SENT_TO, filters.recipient_name),
    ):
        if name is not None:
            yield Where(sql, (_name(name),))
    yield from _times(filters.time_range)


def _times(between: TimeRange) -> Iterator[Where]:
    if between.min_ts is not None:
        yield Where("m.created_ts >= ?", (_held(between.min_ts),))
    if between.max_ts is not None:
        yield Where("m.created_ts <= ?", (_held(between.max_ts),))


def _projects(ids: tuple[int, ...]) -> Where:
    """Give the ids as one value: a product may have more projects than a statement may have."""
    return Where("m.project_id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))


def _agent(direction: Direction | None, name: Param) -> Where:
    if direction is Direction.INBOX:
        return Where(_SENT_TO, (name,))
    if direction is Direction.OUTBOX:
        return Where(_SENT_BY, (name,))
    return Where(f"({_SENT_BY} OR {_SENT_TO})", (name, name))


def _name(typed: str) -> Param:
    """Give a name as text, or as bytes, which equal no text, where SQLite holds no such text."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        return typed.encode(errors="surrogatepass")
    return typed


def _held(number: int) -> int:
    return max(LEAST, min(MOST, number))
