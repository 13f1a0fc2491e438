"""The messages, in SQLite: what search engines are filled from and what hits are read from."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any

from harness_engines.contract import EngineError, IndexUnavailable, SearchError
from harness_engines.lexical.terms import coded
from harness_engines.stacks.agent_mail.budget import CURRENT
from harness_engines.stacks.agent_mail.contract import (
    Agent,
    Importance,
    MailProject,
    Message,
    names,
)
from harness_engines.stacks.agent_mail.sqlite import schema
from harness_engines.stacks.agent_mail.sqlite.schema import (
    Connections,
    Journaled,
    Param,
    Readers,
    connect,
    rows,
    settle,
    undo,
    whole,
)


class AddressKind(StrEnum):
    """How a message is addressed to an agent."""

    TO = "to"
    CC = "cc"
    BCC = "bcc"


READ = (
    "SELECT m.id, m.project_id, m.subject, m.body, s.name,"
    " (SELECT json_group_array(name) FROM (SELECT a.name FROM recipients AS r"
    " JOIN agents AS a ON a.id = r.agent_id WHERE r.message_id = m.id ORDER BY r.position)),"
    " m.thread_id, m.importance, m.ack_required, m.created_ts"
    " FROM messages AS m JOIN agents AS s ON s.id = m.sender_id"
)
"""All that a message is, one row each; takes a WHERE."""

_INSERT = (
    "INSERT INTO messages (project_id, sender_id, thread_id, subject, body, importance,"
    " ack_required, created_ts, identifiers, subject_form, body_form, id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE messages SET project_id = ?, sender_id = ?, thread_id = ?, subject = ?, body = ?,"
    " importance = ?, ack_required = ?, created_ts = ?, identifiers = ? WHERE id = ?"
)
_FORMS = "UPDATE messages SET subject_form = ?, body_form = ? WHERE id = ?"
_AGENTS = (
    "SELECT id, project_id, name, program, model, task_description FROM agents"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_PROJECTS = (
    "SELECT id, slug, name, description FROM projects WHERE id IN (SELECT value FROM json_each(?))"
)
_ADDRESS = "INSERT INTO recipients (message_id, agent_id, kind, position) VALUES (?, ?, ?, ?)"
BATCH = 1_000
"""Messages written by one statement a table."""

Addressed = tuple[Message, Mapping[str, AddressKind]]
Agents = dict[tuple[int, str], int]
"""Ids by project and name."""


def read(rows: Sequence[tuple[Any, ...]]) -> list[Message]:
    """Make messages of rows of ``READ``; the recipients of all are parsed in one go."""
    recipients = json.loads(f"[{','.join([row[5] for row in rows])}]")
    return [
        Message(a, b, c, d, sender, tuple(to), thread, Importance(how), bool(ack), sent)
        for (a, b, c, d, sender, _, thread, how, ack, sent), to in zip(
            rows, recipients, strict=True
        )
    ]


def spelled(subject: str, *body: str) -> tuple[str, str | None, str | None]:
    """Return the identifiers and the forms of a subject and body; ASCII is its own form, None."""
    joined = "\n".join(body)
    found = whole(names(f"{subject}\n{joined}"))
    subject_form = None if subject.isascii() else coded(subject)
    return found, subject_form, None if joined.isascii() else coded(joined)


def insert_all(db: sqlite3.Connection, addressed: Sequence[Addressed]) -> None:
    """Write messages of new ids, a batch by one statement a table; the triggers index them."""
    agents: Agents = {}
    for start in range(0, len(addressed), BATCH):
        batch = addressed[start : start + BATCH]
        for message, _ in batch:
            _know(db, message, agents)
        db.executemany(_INSERT, [_values(message, agents) for message, _ in batch])
        rows = [row for message, kinds in batch for row in _addresses(message, kinds, agents)]
        db.executemany(_ADDRESS, rows)


def update(db: sqlite3.Connection, message: Message, kinds: Mapping[str, AddressKind]) -> bool:
    """Write all of a message anew; say whether there is one of this id."""
    agents: Agents = {}
    _know(db, message, agents)
    *values, found, subject_form, body_form, message_id = _values(message, agents)
    if not db.execute(_UPDATE, (*values, found, message_id)).rowcount:
        return False
    if subject_form or body_form:
        db.execute(_FORMS, (subject_form, body_form, message_id))
    db.execute("DELETE FROM recipients WHERE message_id = ?", (message.message_id,))
    db.executemany(_ADDRESS, _addresses(message, kinds, agents))
    return True


def _know(db: sqlite3.Connection, message: Message, agents: Agents) -> None:
    """Look up the ids of a message's agents; new agents are added to the store."""
    for name in (message.sender_name, *message.recipients):
        of = (message.project_id, name)
        if of in agents:
            continue
        db.execute(
            "INSERT INTO agents (project_id, name, identifiers, subject_form, body_form)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (*of, *spelled(name)),
        )
        found = db.execute("SELECT id FROM agents WHERE project_id = ? AND name = ?", of)
        agents[of] = found.fetchone()[0]


def _addresses(
    message: Message, kinds: Mapping[str, AddressKind], agents: Agents
) -> Iterator[tuple[int, int, AddressKind, int]]:
    for position, name in enumerate(dict.fromkeys(message.recipients)):
        agent = agents[message.project_id, name]
        yield message.message_id, agent, kinds.get(name, AddressKind.TO), position


def _values(message: Message, agents: Agents) -> tuple[str | int | None, ...]:
    return (
        message.project_id,
        agents[message.project_id, message.sender_name],
        message.thread_id,
        message.subject,
        message.body,
        message.importance.value,
        int(message.ack_required),
        message.created_ts,
        *spelled(message.subject, message.body),
        message.message_id,
    )


MAX_CHARACTERS = 4_000_000
"""Of subjects and bodies kept; beyond these, the half that was read first goes."""
EACH = 500
"""Characters that the rest of a message counts for."""


class Remembered:
    """Reads messages of one store, of which it keeps some; threads may share it."""

    def __init__(self, store: Journaled) -> None:
        self._store = store
        self._lock = Lock()
        self._kept: dict[int, Message] = {}
        self._characters = 0
        self._reached: int | None = None
        """Generation of the store that all that is kept is at least of."""

    def hydrate(self, message_ids: Sequence[int]) -> Mapping[int, Message]:
        """Read messages, in the order asked for; ids that are gone are left out."""
        try:
            reached = self._caught_up()
        except SearchError:
            return self._store.hydrate(message_ids)
        try:
            return dict(zip(message_ids, map(self._kept.__getitem__, message_ids), strict=True))
        except KeyError:
            kept = self._kept.get
        found = {one: message for one in message_ids if (message := kept(one)) is not None}
        absent = [one for one in message_ids if one not in found]
        read = self._store.hydrate(absent)
        self._keep(read, reached)
        found.update(read)
        return {one: found[one] for one in message_ids if one in found}

    def _caught_up(self) -> int:
        """Forget what was changed since the last reading, and give the generation reached."""
        with self._lock:
            now, changed = schema.news(self._store, self._reached)
            if self._reached is None or now < self._reached:
                self._kept.clear()
                self._characters = 0
            for message_id in changed:
                self._forget(message_id)
            self._reached = now
            return now

    def _keep(self, read: Mapping[int, Message], reached: int) -> None:
        """Keep what was read, unless a change was read from the journal meanwhile."""
        with self._lock:
            if reached != self._reached:
                return
            for message_id, message in read.items():
                self._forget(message_id)
                self._kept[message_id] = message
                self._characters += _characters(message)
            if self._characters > MAX_CHARACTERS:
                for message_id in list(self._kept)[: len(self._kept) // 2 + 1]:
                    self._forget(message_id)

    def _forget(self, message_id: int) -> None:
        message = self._kept.pop(message_id, None)
        if message is not None:
            self._characters -= _characters(message)


def _characters(message: Message) -> int:
    return len(message.subject) + len(message.body) + EACH


STEPS = 4_096
"""Steps of SQLite's machine between two looks at the clock, well below a millisecond."""
_BROKEN = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CANTOPEN,
}


@dataclass(frozen=True, slots=True)
class MessageStore(Connections):
    """An open store; threads may share it. It is a ``DocumentSource``."""

    def ask(self, sql: str, params: Sequence[Param] = ()) -> list[tuple[Any, ...]]:
        """Read rows."""
        with self.borrowed() as db:
            return [] if db is None else rows(db, sql, params)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the store for several writes that happen together or not at all."""
        with self._lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    def add_project(
        self, project_id: int, slug: str, name: str = "", description: str = ""
    ) -> None:
        """Add a project; agents and messages belong to one."""
        forms = spelled(f"{slug}\n{name}", description)
        with self.writing() as db:
            db.execute(
                "INSERT INTO projects (id, slug, name, description, identifiers, subject_form,"
                " body_form) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (project_id, slug, name, description, *forms),
            )

    def add_product(self, product_id: int, name: str, projects: Iterable[int] = ()) -> None:
        """Add a product and link projects to it."""
        with self.writing() as db:
            db.execute("INSERT INTO products (id, name) VALUES (?, ?)", (product_id, name))
            db.executemany(
                "INSERT INTO product_projects (product_id, project_id) VALUES (?, ?)",
                ((product_id, project_id) for project_id in projects),
            )

    def insert_all(self, addressed: Iterable[Addressed]) -> None:
        """Add many messages, all or none."""
        with self.writing() as db:
            insert_all(db, tuple(addressed))

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
        rows = self.read(f"{READ} WHERE m.id > ? ORDER BY m.id LIMIT ?", (since_id, max(limit, 0)))
        return read(rows)

    def total_count(self) -> int:
        return int(self.read("SELECT count(*) FROM messages")[0][0])

    def hydrate(self, message_ids: Iterable[int]) -> Mapping[int, Message]:
        """Read messages, in the order asked for; ids that are gone are left out."""
        asked = tuple(dict.fromkeys(message_ids))
        rows = self.read(
            f"{READ} WHERE m.id IN (SELECT value FROM json_each(?))",  # noqa: S608  our own text
            (json.dumps(asked),),
        )
        found = {message.message_id: message for message in read(rows)}
        return {message_id: found[message_id] for message_id in asked if message_id in found}

    def sent(self, message_ids: Iterable[int]) -> Mapping[int, int]:
        """When messages were sent, microseconds since 1970 UTC; ids that are gone are left out."""
        sql = "SELECT id, created_ts FROM messages WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self.read(sql, (json.dumps(tuple(message_ids)),)))

    def kinds_of(self, message_id: int) -> Mapping[str, AddressKind]:
        """Describe how a message is addressed to each of its recipients."""
        rows = self.read(
            "SELECT a.name, r.kind FROM recipients AS r JOIN agents AS a ON a.id = r.agent_id"
            " WHERE r.message_id = ? ORDER BY r.position",
            (message_id,),
        )
        return {name: AddressKind(kind) for name, kind in rows}

    def projects_of_product(self, product_id: int) -> frozenset[int]:
        """Projects linked to a product; none where the product is unknown."""
        sql = "SELECT project_id FROM product_projects WHERE product_id = ?"
        return frozenset(row[0] for row in self.read(sql, (product_id,)))

    def project_called(self, slug: str) -> int | None:
        """Id of a project, None where there is none of this name."""
        rows = self.read("SELECT id FROM projects WHERE slug = ?", (slug,))
        return rows[0][0] if rows else None

    def product_called(self, name: str) -> int | None:
        """Id of a product, None where there is none of this name."""
        rows = self.read("SELECT id FROM products WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def agents(self, agent_ids: Iterable[int]) -> Mapping[int, Agent]:
        """Read agents; ids that are gone are left out."""
        rows = self.read(_AGENTS, (json.dumps(tuple(agent_ids)),))
        return {row[0]: Agent(*row) for row in rows}

    def projects(self, project_ids: Iterable[int]) -> Mapping[int, MailProject]:
        """Read projects; ids that are gone are left out."""
        rows = self.read(_PROJECTS, (json.dumps(tuple(project_ids)),))
        return {row[0]: MailProject(*row) for row in rows}

    def read(self, sql: str, params: Sequence[Param] = ()) -> list[tuple[Any, ...]]:
        """Read rows."""
        try:
            return self.ask(sql, params)
        except sqlite3.Error as exc:
            raise search_error(exc, "message store") from exc


@contextmanager
def create(path: Path) -> Iterator[MessageStore]:
    """Make an empty store with its index, open for writing."""
    if path.exists():
        raise FileExistsError(f"{path}: already exists; remove it, or open it to write to it")
    with closing(connect(path, "rwc")) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        made = MessageStore(db)
        with made.writing():
            for statement in schema.TABLES:
                db.execute(statement)
            for table in (schema.MESSAGES, schema.AGENTS, schema.PROJECTS):
                schema.create_index(db, table)
            db.execute(f"PRAGMA user_version = {schema.VERSION}")
        yield made


@contextmanager
def opened(path: Path, *, write: bool = False) -> Iterator[MessageStore]:
    """Open a store; whoever has it open last leaves no file beside the database."""
    try:
        undo(path)
        db = connect(path, "rw" if write else "ro")
    except sqlite3.Error as exc:
        raise search_error(exc, str(path)) from exc
    with ExitStack() as until_closed:
        until_closed.callback(settle, path)
        until_closed.enter_context(closing(db))
        readers = until_closed.enter_context(closing(Readers(lambda: connect(path, "ro"))))
        made = MessageStore(db, readers=None if write else readers)
        try:
            version = made.ask("PRAGMA user_version")[0][0]
        except sqlite3.Error as exc:
            raise search_error(exc, str(path)) from exc
        if version != schema.VERSION:
            raise IndexUnavailable(
                f"{path}: a message store of version {version}; this program reads version"
                f" {schema.VERSION}. Fill a new one"
            )
        yield made


def search_error(exc: sqlite3.Error, what: str) -> SearchError:
    """Return, as section 9.1 names it, what an error of SQLite means for ``what``."""
    code = getattr(exc, "sqlite_errorcode", None)
    kind = IndexUnavailable if code is not None and code & 0xFF in _BROKEN else EngineError
    return kind(f"{what}: {exc}")


@dataclass(frozen=True, slots=True)
class DeadlineStore(MessageStore):
    """The same connections as the store it is made of, for the engines that search.

    SQLite runs one statement at a time on a connection. A statement that no one waits for is
    interrupted at its deadline, and one that has not begun by then never does. So the engine at
    the end of the chain waits for neither.
    """

    @classmethod
    def of(cls, store: MessageStore) -> DeadlineStore:
        """Share the connection of ``store``."""
        return cls(store.db, store._lock, store.readers)  # noqa: SLF001  both are the store

    def ask(self, sql: str, params: Sequence[Param] = ()) -> list[tuple[Any, ...]]:
        """Read rows, until the deadline of the work that asks."""
        until = CURRENT.get()
        if until is None:
            return MessageStore.ask(self, sql, params)
        with self.borrowed(max(0.0, until.left_s)) as db:
            if db is None:
                raise until.passed
            try:
                db.set_progress_handler(until.is_past, STEPS)
                return rows(db, sql, params)
            except sqlite3.OperationalError as exc:
                if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    raise until.passed from exc
                raise
            finally:
                db.set_progress_handler(None, 0)
