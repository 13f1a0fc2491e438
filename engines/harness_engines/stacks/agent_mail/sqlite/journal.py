"""The journal of a message store: which messages changed, and when each did so last.

Triggers write it in the transaction that changes a message, whoever makes the change. A change has
a number, its generation; of each message only the last is kept. So whoever has indexed the store up
to a generation reads from here which messages to index again, and doing so twice changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness_engines.stacks.agent_mail.contract import ChangeKind, DocChange, Message

BATCH = 1_000
"""Messages indexed at once; what is indexed is noted after each batch."""


def _noted(of: str, *ids: str) -> str:
    """Write statements that note a change of each message that ``ids`` select."""
    count = "UPDATE generation SET value = value + 1;"
    note = "".join(
        f" INSERT INTO changes (message_id, generation) SELECT {one}, value FROM generation"  # noqa: S608  our own text
        f" WHERE {one} IS NOT NULL"
        " ON CONFLICT (message_id) DO UPDATE SET generation = excluded.generation;"
        for one in ids
    )
    return f"CREATE TRIGGER {of} BEGIN {count}{note} END"


_OF_AGENT = (
    "CREATE TRIGGER agents_renamed AFTER UPDATE OF name ON agents BEGIN"
    " UPDATE generation SET value = value + 1;"
    " INSERT INTO changes (message_id, generation)"
    " SELECT m.id, value FROM generation, messages AS m WHERE m.sender_id = new.id OR m.id IN"
    " (SELECT r.message_id FROM recipients AS r WHERE r.agent_id = new.id)"
    " ON CONFLICT (message_id) DO UPDATE SET generation = excluded.generation; END"
)
TABLES = (
    "CREATE TABLE generation (value INTEGER NOT NULL)",
    "INSERT INTO generation (value) VALUES (0)",
    "CREATE TABLE changes (message_id INTEGER PRIMARY KEY, generation INTEGER NOT NULL)",
    "CREATE INDEX changes_by_generation ON changes (generation)",
    _noted("messages_noted_insert AFTER INSERT ON messages", "new.id"),
    _noted("messages_noted_update AFTER UPDATE ON messages", "old.id", "new.id"),
    _noted("messages_noted_delete AFTER DELETE ON messages", "old.id"),
    _noted("recipients_noted_insert AFTER INSERT ON recipients", "new.message_id"),
    _noted(
        "recipients_noted_update AFTER UPDATE ON recipients", "old.message_id", "new.message_id"
    ),
    _noted("recipients_noted_delete AFTER DELETE ON recipients", "old.message_id"),
    _OF_AGENT,
)
_NEXT = (
    "SELECT message_id, generation FROM changes WHERE generation > ?"
    " AND generation <= coalesce((SELECT generation FROM changes WHERE generation > ?"
    " ORDER BY generation LIMIT 1 OFFSET ?), 9223372036854775807) ORDER BY generation"
)
"""Changes of one generation are never divided."""
_NEWS = (
    "SELECT NULL, value FROM generation"
    " UNION ALL SELECT message_id, generation FROM changes WHERE generation > ?"
)


class Journaled(Protocol):
    """As much of a message store as the journal is read through."""

    def read(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def hydrate(self, message_ids: Sequence[int]) -> Mapping[int, Message]: ...


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes in the order in which they were made, and the generation that they lead to."""

    generation: int
    changes: tuple[DocChange, ...]


def generation(store: Journaled) -> int:
    """Count the changes of a store since it was filled."""
    return int(store.read("SELECT value FROM generation")[0][0])


def since(store: Journaled, reached: int) -> ChangeBatch:
    """Read the next changes after the generation ``reached``, about ``BATCH`` at most."""
    now = generation(store)
    rows = store.read(_NEXT, (reached, reached, BATCH - 1))
    ids = [row[0] for row in rows]
    messages = store.hydrate(ids) if ids else {}
    last = rows[-1][1] if len(rows) >= BATCH else max([now, *(row[1] for row in rows[-1:])])
    changes = (
        DocChange(
            ChangeKind.UPSERT if one in messages else ChangeKind.DELETE, one, messages.get(one)
        )
        for one in ids
    )
    return ChangeBatch(last, tuple(changes))


def changed(store: Journaled, reached: int) -> tuple[int, ...]:
    """Name the messages that were changed after the generation ``reached``."""
    rows = store.read("SELECT message_id FROM changes WHERE generation > ?", (reached,))
    return tuple(row[0] for row in rows)


def news(store: Journaled, reached: int | None) -> tuple[int, list[int]]:
    """Return the generation of a store, and the messages that were changed after ``reached``."""
    (_, now), *rows = store.read(_NEWS, (reached,))
    return int(now), [row[0] for row in rows]


def changed_of(store: Journaled, message_ids: Sequence[int]) -> Mapping[int, int]:
    """Return the generation of the last change of each message that changed at all."""
    sql = (
        "SELECT message_id, generation FROM changes"
        " WHERE message_id IN (SELECT value FROM json_each(?))"
    )
    return dict(store.read(sql, (json.dumps(list(message_ids)),)))


def settle(db: sqlite3.Connection) -> None:
    """Begin at generation 0: whatever is in the store now is in every index that is built of it."""
    db.execute("DELETE FROM changes")
    db.execute("UPDATE generation SET value = 0")
