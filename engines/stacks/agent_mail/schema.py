"""The tables of the message store, and the FTS5 index that triggers keep beside them.

``messages_fts`` is external content: it holds no text of its own. ``subject`` and ``body`` are
split at every sign that is no letter or digit, as ``am_normalize`` splits them; one table has one
tokenizer, so the tokens of ``identifiers`` stay whole by writing the signs that join them as four
private characters that the tokenizer takes for letters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

VERSION = 1
"""Kept in the file as ``user_version``; a store of another version is not opened."""

TABLES = (
    "CREATE TABLE projects (id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE)",
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
)

_JOINS = {"-": "\ue02d", "_": "\ue05f", ".": "\ue02e", "/": "\ue02f"}
_WHOLE = str.maketrans(_JOINS)

_FORGET = (
    "INSERT INTO messages_fts (messages_fts, rowid, subject, body, identifiers)"
    " VALUES ('delete', old.id, old.subject, old.body, old.identifiers);"
)
_LEARN = (
    "INSERT INTO messages_fts (rowid, subject, body, identifiers)"
    " VALUES (new.id, new.subject, new.body, new.identifiers);"
)
INDEX = {
    "messages_fts": "CREATE VIRTUAL TABLE messages_fts USING fts5("
    "subject, body, identifiers, content='messages', content_rowid='id',"
    " tokenize=\"unicode61 remove_diacritics 0 categories 'L* N*'"
    f" tokenchars '{''.join(_JOINS.values())}'\")",
    "messages_fts_insert": "CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages"
    f" BEGIN {_LEARN} END",
    "messages_fts_delete": "CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages"
    f" BEGIN {_FORGET} END",
    "messages_fts_update": "CREATE TRIGGER messages_fts_update"
    " AFTER UPDATE OF subject, body, identifiers ON messages"
    " WHEN (old.subject, old.body, old.identifiers)"
    " IS NOT (new.subject, new.body, new.identifiers)"
    f" BEGIN {_FORGET} {_LEARN} END",
}
"""What the index is made of, by name. A write that leaves the text alone does not touch it."""
_SHADOWS = ("data", "idx", "docsize", "config", "content")


def whole(tokens: Iterable[str]) -> str:
    """Write identifiers so that FTS5 takes each for one token."""
    return " ".join(tokens).translate(_WHOLE)


def create_index(db: sqlite3.Connection) -> None:
    """Make the index of the messages that are there, and the triggers that keep it."""
    for statement in INDEX.values():
        db.execute(statement)
    db.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    db.execute("INSERT INTO messages_fts (messages_fts) VALUES ('optimize')")


def drop_index(db: sqlite3.Connection) -> None:
    """Remove the index and its triggers, also an index so broken that SQLite cannot drop it."""
    for name in INDEX:
        if name != "messages_fts":
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
    try:
        db.execute("DROP TABLE IF EXISTS messages_fts")
    except sqlite3.DatabaseError:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("DELETE FROM sqlite_master WHERE name = 'messages_fts'")
        db.execute("PRAGMA writable_schema = RESET")
    for shadow in _SHADOWS:
        db.execute(f"DROP TABLE IF EXISTS messages_fts_{shadow}")


def missing(made: Mapping[str, str | None]) -> tuple[str, ...]:
    """Name the parts of the index that are not in ``sqlite_master`` as this version makes them."""
    return tuple(name for name, statement in INDEX.items() if made.get(name) != statement)
