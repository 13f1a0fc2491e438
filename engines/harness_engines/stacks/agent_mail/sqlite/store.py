"""The messages, in SQLite: what search engines are filled from and what hits are read from."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from threading import Condition, Lock
from typing import Any

from harness_engines.contract import EngineError, IndexUnavailable, SearchError
from harness_engines.lexical.terms import coded
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.faults import CURRENT, Deadline
from harness_engines.stacks.agent_mail.sqlite import schema
from harness_engines.stacks.agent_mail.sqlite.schema import whole

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


def undo(path: Path, *, left: Sequence[str] = ("journal", "wal")) -> None:
    """Take back what a killed writer left half done, and take up what it had finished."""
    if any(path.with_name(f"{path.name}-{one}").exists() for one in left):
        with closing(connect(path, "rw")) as db:
            db.execute("SELECT 1 FROM sqlite_master").fetchall()
            _journal(db, "DELETE")


MAX_CONNECTIONS = 8
STEPS = 4_096
"""Steps of SQLite's machine between two looks at the clock, well below a millisecond."""


class Connections:
    """Lends connections to a store, each to one thread at a time; to write there is but one."""

    def __init__(
        self, db: sqlite3.Connection, more: Callable[[], sqlite3.Connection] | None = None
    ) -> None:
        self.db, self._more = db, more
        self._made, self._idle = 1, [db]
        self._returned = Condition()

    @contextmanager
    def borrowed(self, until: Deadline | None = None) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one statement; the first one, or another while that is busy."""
        db = self._lend(until)
        try:
            yield db
        finally:
            self._take_back(db)

    def _lend(self, until: Deadline | None) -> sqlite3.Connection:
        wait_s = None if until is None else max(0.0, until.left_s)
        with self._returned:
            if not self._idle and self._more is not None and self._made < MAX_CONNECTIONS:
                with suppress(sqlite3.Error):
                    self._idle.append(self._more())
                    self._made += 1
            if not self._returned.wait_for(lambda: self._idle, wait_s) and until is not None:
                raise until.passed
            return self._idle.pop()

    def _take_back(self, db: sqlite3.Connection) -> None:
        with self._returned:
            self._idle.append(db)
            self._returned.notify_all()

    def ask(self, sql: str, params: Sequence[Param] = ()) -> list[tuple[Any, ...]]:
        """Read rows, until the deadline of the work that asks, where it has one.

        A statement that no one waits for is interrupted at its deadline, and one that has not
        begun by then never does. So the engine at the end of the chain waits for neither.
        """
        until = CURRENT.get()
        db = self._lend(until)
        try:
            if until:
                db.set_progress_handler(until.is_past, STEPS)
            return rows(db, sql, params)
        except sqlite3.OperationalError as exc:
            if until and getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise until.passed from exc
            raise
        finally:
            if until:
                db.set_progress_handler(None, 0)
            self._take_back(db)

    def moved(self) -> tuple[int, int]:
        """Count the changes of the first connection and of others since it was opened.

        While a statement runs on it, it sees no change that came after; so that ends first.
        """
        with self._returned:
            self._returned.wait_for(lambda: self.db in self._idle)
            self._idle.remove(self.db)
        try:
            ((own,),) = self.db.execute("SELECT total_changes()").fetchall()
            ((others,),) = self.db.execute("PRAGMA data_version").fetchall()
        finally:
            self._take_back(self.db)
        return own, others

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lock the store for several writes that happen together or not at all."""
        with self.borrowed() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def close(self) -> None:
        """Close what is not lent, and the first connection."""
        for db in {self.db, *self._idle}:
            db.close()


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
_THESE = "id IN (SELECT value FROM json_each(?))"
_ADDRESS = "INSERT INTO recipients (message_id, agent_id, kind, position) VALUES (?, ?, ?, ?)"
BATCH = 1_000
"""Messages written by one statement a table, and indexed before it is noted how far."""
_NEXT = (
    "SELECT message_id, generation FROM changes WHERE generation > ?"
    " AND generation <= coalesce((SELECT generation FROM changes WHERE generation > ?"
    " ORDER BY generation LIMIT 1 OFFSET ?), 9223372036854775807) ORDER BY generation"
)
"""Changes of one generation are never divided."""
_NEWS = "SELECT message_id FROM changes WHERE generation > ?"

Addressed = tuple[contract.Message, Mapping[str, AddressKind]]
Agents = dict[tuple[int, str], int]
"""Ids by project and name."""


def read(rows: Sequence[tuple[Any, ...]]) -> list[contract.Message]:
    """Make messages of rows of ``READ``; the recipients of all are parsed in one go."""
    recipients = json.loads(f"[{','.join([row[5] for row in rows])}]")
    level = lru_cache(contract.Importance)
    return [
        contract.Message(a, b, c, d, by, tuple(to), thread, level(how), bool(ack), sent)
        for (a, b, c, d, by, _, thread, how, ack, sent), to in zip(rows, recipients, strict=True)
    ]


def spelled(subject: str, *body: str) -> tuple[str, str | None, str | None]:
    """Return the identifiers and the forms of a subject and body; ASCII is its own form, None."""
    joined = "\n".join(body)
    found = whole(contract.names(f"{subject}\n{joined}"))
    subject_form = None if subject.isascii() else coded(subject)
    return found, subject_form, None if joined.isascii() else coded(joined)


def insert_all(db: sqlite3.Connection, addressed: Sequence[Addressed]) -> None:
    """Write messages of new ids, a batch by one statement a table; the triggers index them."""
    agents: Agents = {}
    for start in range(0, len(addressed), BATCH):
        batch = addressed[start : start + BATCH]
        db.executemany(_INSERT, [_values(db, message, agents) for message, _ in batch])
        rows = [row for message, kinds in batch for row in _addresses(message, kinds, agents)]
        db.executemany(_ADDRESS, rows)


def update(
    db: sqlite3.Connection, message: contract.Message, kinds: Mapping[str, AddressKind]
) -> bool:
    """Write all of a message anew; say whether there is one of this id."""
    agents: Agents = {}
    *values, found, subject_form, body_form, message_id = _values(db, message, agents)
    if not db.execute(_UPDATE, (*values, found, message_id)).rowcount:
        return False
    if subject_form or body_form:
        db.execute(_FORMS, (subject_form, body_form, message_id))
    db.execute("DELETE FROM recipients WHERE message_id = ?", (message.message_id,))
    db.executemany(_ADDRESS, _addresses(message, kinds, agents))
    return True


def _addresses(
    message: contract.Message, kinds: Mapping[str, AddressKind], agents: Agents
) -> Iterator[tuple[int, int, AddressKind, int]]:
    for position, name in enumerate(dict.fromkeys(message.recipients)):
        agent = agents[message.project_id, name]
        yield message.message_id, agent, kinds.get(name, AddressKind.TO), position


def _values(
    db: sqlite3.Connection, message: contract.Message, agents: Agents
) -> tuple[str | int | None, ...]:
    """Return a message's row; the ids of its agents are looked up, and new ones are added."""
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
"""Of subjects and bodies kept; beyond these, all that was kept before goes."""
EACH = 500
"""Characters that the rest of a message counts for."""


class Remembered:
    """Reads messages of one store, of which it keeps some; threads may share it."""

    def __init__(self, store: "MessageStore") -> None:
        self._store = store
        self._lock = Lock()
        self._kept: dict[int, contract.Message] = {}
        self._characters = 0
        self._reached: int | None = None
        """Generation of the store that all that is kept is at least of."""

    def hydrate(self, message_ids: Sequence[int]) -> Mapping[int, contract.Message]:
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
        read = self._store.hydrate([one for one in message_ids if one not in found])
        self._keep(read, reached)
        found.update(read)
        return {one: found[one] for one in message_ids if one in found}

    def _caught_up(self) -> int:
        """Forget what was changed since the last reading, and give the generation reached."""
        with self._lock:
            now, changed = self._store.news(self._reached)
            if self._reached is None or now < self._reached:
                self._kept.clear()
            for message_id in changed:
                self._kept.pop(message_id, None)
            self._reached = now
            return now

    def _keep(self, read: Mapping[int, contract.Message], reached: int) -> None:
        """Keep what was read, unless a change was read from the journal meanwhile."""
        added = sum(len(one.subject) + len(one.body) + EACH for one in read.values())
        with self._lock:
            if reached != self._reached:
                return
            if self._characters + added > MAX_CHARACTERS:
                self._kept.clear()
                self._characters = 0
            self._kept.update(read)
            self._characters += added


_BROKEN = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CANTOPEN,
}


class MessageStore(Connections):
    """An open store; threads may share it. It is a ``DocumentSource``."""

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

    def settle_journal(self) -> None:
        """Begin at generation 0: whatever is here now is in every index that is built of it."""
        with self.writing() as db:
            db.execute("DELETE FROM changes")
            db.execute("UPDATE generation SET value = 0")

    def generation(self) -> int:
        """Count the changes since the store was filled."""
        return int(self.read("SELECT value FROM generation")[0][0])

    def since(self, reached: int) -> tuple[int, contract.Changes]:
        """Read about ``BATCH`` changes after ``reached``, and the generation that they lead to."""
        now = self.generation()
        rows = self.read(_NEXT, (reached, reached, BATCH - 1))
        messages = self.hydrate([row[0] for row in rows]) if rows else {}
        last = rows[-1][1] if len(rows) >= BATCH else max([now, *(row[1] for row in rows[-1:])])
        return last, {row[0]: messages.get(row[0]) for row in rows}

    def news(self, reached: int | None) -> tuple[int, list[int]]:
        """Return the generation, and the messages that were changed after ``reached``."""
        rows = [] if (now := self.generation()) == reached else self.read(_NEWS, (reached,))
        return now, [row[0] for row in rows]

    def changed_of(self, message_ids: Iterable[int]) -> Mapping[int, int]:
        """Return the generation of the last change of each message that changed at all."""
        sql = f"SELECT message_id, generation FROM changes WHERE message_{_THESE}"  # noqa: S608  our own text
        return dict(self.read(sql, (json.dumps(tuple(message_ids)),)))

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[contract.Message]:
        rows = self.read(f"{READ} WHERE m.id > ? ORDER BY m.id LIMIT ?", (since_id, max(limit, 0)))
        return read(rows)

    def total_count(self) -> int:
        return int(self.read("SELECT count(*) FROM messages")[0][0])

    def hydrate(self, message_ids: Iterable[int]) -> Mapping[int, contract.Message]:
        """Read messages, in the order asked for; ids that are gone are left out."""
        asked = tuple(dict.fromkeys(message_ids))
        rows = self.read(f"{READ} WHERE m.{_THESE}", (json.dumps(asked),))
        found = {message.message_id: message for message in read(rows)}
        return {message_id: found[message_id] for message_id in asked if message_id in found}

    def sent(self, message_ids: Iterable[int]) -> Mapping[int, int]:
        """When messages were sent, microseconds since 1970 UTC; ids that are gone are left out."""
        return dict(self._of("id, created_ts FROM messages", message_ids))

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
        return int(rows[0][0]) if rows else None

    def product_called(self, name: str) -> int | None:
        """Id of a product, None where there is none of this name."""
        rows = self.read("SELECT id FROM products WHERE name = ?", (name,))
        return int(rows[0][0]) if rows else None

    def agents(self, agent_ids: Iterable[int] | None = None) -> Mapping[int, contract.Agent]:
        """Read agents, or all; ids that are gone are left out."""
        columns = "id, project_id, name, program, model, task_description FROM agents"
        return {row[0]: contract.Agent(*row) for row in self._of(columns, agent_ids)}

    def projects(
        self, project_ids: Iterable[int] | None = None
    ) -> Mapping[int, contract.MailProject]:
        """Read projects, or all; ids that are gone are left out."""
        columns = "id, slug, name, description FROM projects"
        return {row[0]: contract.MailProject(*row) for row in self._of(columns, project_ids)}

    def _of(self, columns: str, ids: Iterable[int] | None) -> list[tuple[Any, ...]]:
        if ids is None:
            return self.read(f"SELECT {columns} ORDER BY id")
        sql = f"SELECT {columns} WHERE {_THESE}"
        return self.read(sql, (json.dumps(tuple(ids)),))

    def read(self, sql: str, params: Sequence[Param] = ()) -> list[tuple[Any, ...]]:
        """Read rows; what goes wrong is a ``SearchError``."""
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
    with ExitStack() as until_closed:
        try:
            undo(path)
            db = connect(path, "rw" if write else "ro")
            until_closed.callback(_settle, path)
            made = MessageStore(db, None if write else lambda: connect(path, "ro"))
            until_closed.enter_context(closing(made))
            version = made.ask("PRAGMA user_version")[0][0]
        except sqlite3.Error as exc:
            raise search_error(exc, str(path)) from exc
        if version != schema.VERSION:
            raise IndexUnavailable(
                f"{path}: a message store of version {version}; this program reads version"
                f" {schema.VERSION}. Fill a new one"
            )
        yield made


def _settle(path: Path) -> None:
    """Bring what was written ahead into the file, unless somebody else has it open."""
    with suppress(sqlite3.Error):
        undo(path, left=("wal",))


def search_error(exc: sqlite3.Error, what: str) -> SearchError:
    """Return, as section 9.1 names it, what an error of SQLite means for ``what``."""
    code = getattr(exc, "sqlite_errorcode", None)
    kind = IndexUnavailable if code is not None and code & 0xFF in _BROKEN else EngineError
    return kind(f"{what}: {exc}")
