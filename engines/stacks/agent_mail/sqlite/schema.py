"""The tables of the message store, and the FTS5 indexes that triggers keep beside them.

Messages, agents and projects are searched in the same columns: the ``subject`` of an agent is its
name, that of a project its slug and its name. An index is external content: it holds no text of
its own. ``subject`` and ``body`` are split at every sign that is not a letter or digit, as
``am_normalize`` splits them. One table has one tokenizer, so the tokens of ``identifiers`` stay
whole by writing the signs that join them as four private characters that the tokenizer takes for
letters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from engines.stacks.agent_mail.sqlite import journal

VERSION = 3
"""Kept in the file as ``user_version``; a store of another version is not opened."""

TABLES = (
    (
        "CREATE TABLE projects (id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE,"
        " name TEXT NOT NULL, description TEXT NOT NULL, identifiers TEXT NOT NULL,"
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
        " identifiers TEXT NOT NULL, importance TEXT NOT NULL,"
        " ack_required INTEGER NOT NULL CHECK (ack_required IN (0, 1)),"
        " created_ts INTEGER NOT NULL)"
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
    *journal.TABLES,
)

_JOINS = {"-": "\ue02d", "_": "\ue05f", ".": "\ue02e", "/": "\ue02f"}
_WHOLE = str.maketrans(_JOINS)

MESSAGES, AGENTS, PROJECTS = "messages", "agents", "projects"
"""Tables that are searched; the index of each is called after it."""
_SHADOWS = ("data", "idx", "docsize", "config", "content")


def index_of(table: str) -> Mapping[str, str]:
    """Say what the index of a table is made of, by name, the index itself first.

    A write that leaves the text alone does not touch it.
    """
    fts = f"{table}_fts"
    forget = (
        f"INSERT INTO {fts} ({fts}, rowid, subject, body, identifiers)"  # noqa: S608  our own text
        " VALUES ('delete', old.id, old.subject, old.body, old.identifiers);"
    )
    learn = (
        f"INSERT INTO {fts} (rowid, subject, body, identifiers)"  # noqa: S608  our own text
        " VALUES (new.id, new.subject, new.body, new.identifiers);"
    )
    return {
        fts: f"CREATE VIRTUAL TABLE {fts} USING fts5("
        f"subject, body, identifiers, content='{table}', content_rowid='id',"
        " tokenize=\"unicode61 remove_diacritics 0 categories 'L* N*'"
        f" tokenchars '{''.join(_JOINS.values())}'\")",
        f"{fts}_insert": f"CREATE TRIGGER {fts}_insert AFTER INSERT ON {table} BEGIN {learn} END",
        f"{fts}_delete": f"CREATE TRIGGER {fts}_delete AFTER DELETE ON {table} BEGIN {forget} END",
        f"{fts}_update": f"CREATE TRIGGER {fts}_update AFTER UPDATE ON {table}"
        " WHEN (old.subject, old.body, old.identifiers)"
        " IS NOT (new.subject, new.body, new.identifiers)"
        f" BEGIN {forget} {learn} END",
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
    """Remove the index and its triggers, also an index so broken that SQLite cannot drop it."""
    fts, *triggers = index_of(table)
    for name in triggers:
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    try:
        db.execute(f"DROP TABLE IF EXISTS {fts}")
    except sqlite3.DatabaseError:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("DELETE FROM sqlite_master WHERE name = ?", (fts,))
        db.execute("PRAGMA writable_schema = RESET")
    for shadow in _SHADOWS:
        db.execute(f"DROP TABLE IF EXISTS {fts}_{shadow}")


def missing(made: Mapping[str, str | None], table: str) -> tuple[str, ...]:
    """Name the parts of an index that are not in ``sqlite_master`` as this version makes them."""
    return tuple(name for name, statement in index_of(table).items() if made.get(name) != statement)
