"""The tables of the message store, the journal of their changes, and connections to them.

Triggers write the journal in the transaction that changes a message, whoever makes the change. A
change has a number, its generation; of each message only the last is kept. So whoever has indexed
the store up to a generation reads from here which messages to index again, and doing so twice
changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from harness_engines.stacks.agent_mail.contract import ChangeKind, DocChange, Message

Param = str | int | float | bytes | None
_LEFT = frozenset({sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_READONLY_RECOVERY})
"""What SQLite says where a writer was killed and only a writer may settle what it left."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to the file ``path``; ``mode`` is that of an SQLite address."""
    where = f"{path.resolve().as_uri()}?mode={mode}"
    db = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA foreign_keys = ON")
    return db


def rows(db: sqlite3.Connection, sql: str, params: Sequence[Param]) -> list[tuple[Any, ...]]:
    """Read rows, also where a writer was killed in the middle of a change and left it to undo."""
    try:
        return db.execute(sql, params).fetchall()
    except sqlite3.OperationalError as exc:
        if getattr(exc, "sqlite_errorcode", None) not in _LEFT:
            raise
    (_, _, path), *_ = db.execute("PRAGMA database_list").fetchall()
    undo(Path(path))
    return db.execute(sql, params).fetchall()


@contextmanager
def ahead(db: sqlite3.Connection) -> Iterator[None]:
    """Write ahead of the file (WAL) for so long, so that readers and the writer never wait.

    Afterwards the file stands alone again, unless somebody else is reading it. Where another
    program holds it at the start, everything is as without.
    """
    _journal(db, "WAL")
    try:
        yield
    finally:
        _journal(db, "DELETE")


def _journal(db: sqlite3.Connection, mode: str) -> None:
    with suppress(sqlite3.OperationalError):
        db.execute(f"PRAGMA journal_mode = {mode}").fetchall()


def settle(path: Path) -> None:
    """Bring what was written ahead into the file, unless somebody else has it open."""
    with suppress(sqlite3.Error):
        if path.with_name(f"{path.name}-wal").exists():
            undo(path)


def undo(path: Path) -> None:
    """Take back what a killed writer left half done, and take up what it had finished."""
    if any(path.with_name(f"{path.name}-{left}").exists() for left in ("journal", "wal")):
        with closing(connect(path, "rw")) as db:
            db.execute("SELECT 1 FROM sqlite_master").fetchall()
            _journal(db, "DELETE")


MAX_READERS = 7
"""Connections beside the first."""


class Readers:
    """Lends connections, each to one thread at a time; they are made when they are needed."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._lent = 0

    def take(self) -> sqlite3.Connection | None:
        """Lend a connection; None where all are lent, or none can be made."""
        with self._lock:
            if self._lent >= MAX_READERS:
                return None
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except sqlite3.Error:
            with self._lock:
                self._lent -= 1
            return None

    def give(self, db: sqlite3.Connection) -> None:
        """Take a connection back."""
        with self._lock:
            self._lent -= 1
            self._idle.append(db)

    def close(self) -> None:
        """Close what is not lent."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()


@dataclass(frozen=True, slots=True)
class Connections:
    """The first connection to a store, and more of them where it is only read."""

    db: sqlite3.Connection
    _lock: Lock = field(default_factory=Lock)
    readers: Readers | None = None

    @contextmanager
    def borrowed(self, timeout_s: float = -1.0) -> Iterator[sqlite3.Connection | None]:
        """Lend a connection for one statement: the first, or another while that is busy."""
        free = self._lock.acquire(blocking=False)
        other = None if free or self.readers is None else self.readers.take()
        if other is not None and self.readers is not None:
            try:
                yield other
            finally:
                self.readers.give(other)
        elif free or self._lock.acquire(timeout=timeout_s):
            try:
                yield self.db
            finally:
                self._lock.release()
        else:
            yield None

    def generation(self) -> tuple[int, int]:
        """Count the changes of this connection and of others since it was opened."""
        with self._lock:
            changes = self.db.execute("SELECT total_changes()").fetchall()
            return int(changes[0][0]), int(self.db.execute("PRAGMA data_version").fetchall()[0][0])


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
JOURNAL = (
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


def settle_journal(db: sqlite3.Connection) -> None:
    """Begin at generation 0: whatever is in the store now is in every index that is built of it."""
    db.execute("DELETE FROM changes")
    db.execute("UPDATE generation SET value = 0")


VERSION = 5
"""Kept in the file as ``user_version``; a store of another version is not opened."""

TABLES = (
    (
        "CREATE TABLE projects (id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE,"
        " name TEXT NOT NULL, description TEXT NOT NULL, identifiers TEXT NOT NULL,"
        " subject_form TEXT, body_form TEXT,"
        " project_id INTEGER AS (id), subject TEXT AS (slug || char(10) || name),"
        " body TEXT AS (description))"
    ),
    "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    (
        "CREATE TABLE product_projects ("
        " product_id INTEGER NOT NULL REFERENCES products(id) ON DELETE CASCADE,"
        " project_id INTEGER NOT NULL REFERENCES projects(id) ON DELETE CASCADE,"
        " PRIMARY KEY (product_id, project_id)) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE agents (id INTEGER PRIMARY KEY,"
        " project_id INTEGER NOT NULL REFERENCES projects(id), name TEXT NOT NULL,"
        " program TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',"
        " task_description TEXT NOT NULL DEFAULT '', identifiers TEXT NOT NULL,"
        " subject_form TEXT, body_form TEXT,"
        " subject TEXT AS (name),"
        " body TEXT AS (program || char(10) || model || char(10) || task_description),"
        " UNIQUE (project_id, name))"
    ),
    "CREATE INDEX agents_by_name ON agents (name)",
    (
        "CREATE TABLE messages (id INTEGER PRIMARY KEY,"
        " project_id INTEGER NOT NULL REFERENCES projects(id),"
        " sender_id INTEGER NOT NULL REFERENCES agents(id),"
        " thread_id TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,"
        " identifiers TEXT NOT NULL, subject_form TEXT, body_form TEXT, importance TEXT NOT NULL,"
        " ack_required INTEGER NOT NULL CHECK (ack_required IN (0, 1)),"
        " created_ts INTEGER NOT NULL)"
    ),
    (
        "CREATE TRIGGER messages_form_forgotten AFTER UPDATE OF subject, body ON messages"
        " WHEN (old.subject, old.body) IS NOT (new.subject, new.body)"
        " AND (new.subject_form, new.body_form) IS NOT (NULL, NULL)"
        " BEGIN UPDATE messages SET subject_form = NULL, body_form = NULL WHERE id = new.id; END"
    ),
    "CREATE INDEX messages_by_time ON messages (created_ts DESC, id)",
    "CREATE INDEX messages_by_thread ON messages (thread_id)",
    (
        "CREATE TABLE recipients ("
        " message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,"
        " agent_id INTEGER NOT NULL REFERENCES agents(id),"
        " kind TEXT NOT NULL CHECK (kind IN ('to', 'cc', 'bcc')), position INTEGER NOT NULL,"
        " PRIMARY KEY (message_id, agent_id)) WITHOUT ROWID"
    ),
    "CREATE INDEX recipients_by_agent ON recipients (agent_id, message_id)",
    *JOURNAL,
)

_JOINS = {sign: chr(0xE000 + ord(sign)) for sign in "-_./#+"}
_WHOLE = str.maketrans(_JOINS)

MESSAGES, AGENTS, PROJECTS = "messages", "agents", "projects"
"""Tables that are searched; the index of each is called after it."""
_SHADOWS = ("data", "idx", "docsize", "config", "content")


def index_of(table: str) -> Mapping[str, str]:
    """Describe what the index of a table is made of, by name, the index itself first."""
    fts, view = f"{table}_fts", f"{table}_words"
    columns = (
        "coalesce({0}subject_form, {0}subject), coalesce({0}body_form, {0}body), {0}identifiers"
    )
    old, new = columns.format("old."), columns.format("new.")
    named = "subject, body, identifiers"
    forget = f"INSERT INTO {fts} ({fts}, rowid, {named}) VALUES ('delete', old.id, {old});"  # noqa: S608  our own text
    learn = f"INSERT INTO {fts} (rowid, {named}) VALUES (new.id, {new});"  # noqa: S608  our own text
    return {
        fts: f"CREATE VIRTUAL TABLE {fts} USING fts5({named}, content='{view}', content_rowid='id',"
        " tokenize=\"unicode61 remove_diacritics 0 categories 'L* N*'"
        f" tokenchars '{''.join(_JOINS.values())}'\")",
        view: f"CREATE VIEW {view} (id, {named}) AS SELECT id, {columns.format('')} FROM {table}",  # noqa: S608  our own text
        f"{fts}_insert": f"CREATE TRIGGER {fts}_insert AFTER INSERT ON {table} BEGIN {learn} END",
        f"{fts}_delete": f"CREATE TRIGGER {fts}_delete AFTER DELETE ON {table} BEGIN {forget} END",
        f"{fts}_update": f"CREATE TRIGGER {fts}_update AFTER UPDATE ON {table}"
        f" WHEN ({old}) IS NOT ({new}) BEGIN {forget} {learn} END",
    }


def whole(tokens: Iterable[str]) -> str:
    """Write identifiers so that FTS5 takes each for one token."""
    return " ".join(tokens).translate(_WHOLE)


def create_index(db: sqlite3.Connection, table: str) -> None:
    """Index the rows of a table that are there, and make the triggers that keep the index."""
    fts, *_ = made = index_of(table)
    for statement in made.values():
        db.execute(statement)
    db.execute(f"INSERT INTO {fts} ({fts}) VALUES ('rebuild')")  # noqa: S608  our own text
    db.execute(f"INSERT INTO {fts} ({fts}) VALUES ('optimize')")  # noqa: S608  our own text


def drop_index(db: sqlite3.Connection, table: str) -> None:
    """Remove the index of a table and its triggers."""
    fts, view, *triggers = index_of(table)
    for name in triggers:
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute(f"DROP TABLE IF EXISTS {fts}")
    for shadow in _SHADOWS:
        db.execute(f"DROP TABLE IF EXISTS {fts}_{shadow}")
    db.execute(f"DROP VIEW IF EXISTS {view}")
