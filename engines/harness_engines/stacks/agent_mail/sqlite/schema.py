"""The tables of the message store, its word indexes, and the journal of its changes.

Triggers write the journal in the transaction that changes a message, whoever makes the change. A
change has a number, its generation; of each message only the last is kept. So whoever has indexed
the store up to a generation reads from here which messages to index again, and doing so twice
changes nothing.
"""

import sqlite3
from collections.abc import Iterable, Mapping


def _noted(of: str, *changed: str) -> str:
    """Write a trigger that notes a change of each message that ``changed`` selects."""
    count = "UPDATE generation SET value = value + 1;"
    note = "".join(
        f" INSERT INTO changes (message_id, generation) SELECT {one}"
        " ON CONFLICT (message_id) DO UPDATE SET generation = excluded.generation;"
        for one in changed
    )
    return f"CREATE TRIGGER {of} BEGIN {count}{note} END"


JOURNAL = (
    "CREATE TABLE generation (value INTEGER NOT NULL)",
    "INSERT INTO generation (value) VALUES (0)",
    "CREATE TABLE changes (message_id INTEGER PRIMARY KEY, generation INTEGER NOT NULL)",
    "CREATE INDEX changes_by_generation ON changes (generation)",
    *(
        _noted(
            f"{table}_noted_{when} AFTER {when} ON {table}",
            *(f"{of}.{key}, value FROM generation WHERE {of}.{key} IS NOT NULL" for of in rows),
        )
        for table, key in (("messages", "id"), ("recipients", "message_id"))
        for when, rows in (("insert", ["new"]), ("update", ["old", "new"]), ("delete", ["old"]))
    ),
    _noted(
        "agents_renamed AFTER UPDATE OF name ON agents",
        "m.id, value FROM generation, messages AS m WHERE m.sender_id = new.id OR m.id IN"
        " (SELECT r.message_id FROM recipients AS r WHERE r.agent_id = new.id)",
    ),
)
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
