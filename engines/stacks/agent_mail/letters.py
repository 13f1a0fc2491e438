"""A message in the tables: its values, its agents, how it is addressed, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from engines.contract.mail.lifecycle import Message
from engines.contract.mail.query import Importance
from engines.lexical.identifiers import identifiers
from engines.stacks.agent_mail.schema import whole


class Kind(StrEnum):
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
    "INSERT INTO messages (project_id, sender_id, thread_id, subject, body, identifiers,"
    " importance, ack_required, created_ts, id)"
    " VALUES (?, (SELECT id FROM agents WHERE project_id = ? AND name = ?), ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE messages SET project_id = ?,"
    " sender_id = (SELECT id FROM agents WHERE project_id = ? AND name = ?),"
    " thread_id = ?, subject = ?, body = ?, identifiers = ?, importance = ?, ack_required = ?,"
    " created_ts = ? WHERE id = ?"
)


def read(row: tuple[Any, ...]) -> Message:
    """Make a message of a row of ``READ``."""
    message_id, project_id, subject, body, sender, recipients, thread, how, ack, created_ts = row
    return Message(
        message_id,
        project_id,
        subject,
        body,
        sender,
        tuple(json.loads(recipients)),
        thread,
        Importance(how),
        bool(ack),
        created_ts,
    )


def identified(*texts: str) -> str:
    """Write the identifiers of what is searched together, as the index keeps them."""
    return whole(identifiers("\n".join(texts)))


def insert(db: sqlite3.Connection, message: Message, kinds: Mapping[str, Kind]) -> None:
    """Write a message of a new id; the triggers index it."""
    _add_agents(db, message)
    db.execute(_INSERT, _values(message))
    _address(db, message, kinds)


def update(db: sqlite3.Connection, message: Message, kinds: Mapping[str, Kind]) -> bool:
    """Write all of a message anew; say whether there is one of this id."""
    _add_agents(db, message)
    if not db.execute(_UPDATE, _values(message)).rowcount:
        return False
    db.execute("DELETE FROM recipients WHERE message_id = ?", (message.message_id,))
    _address(db, message, kinds)
    return True


def _add_agents(db: sqlite3.Connection, message: Message) -> None:
    db.executemany(
        "INSERT INTO agents (project_id, name, identifiers) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (
            (message.project_id, name, identified(name))
            for name in {message.sender_name: 1, **_listed(message)}
        ),
    )


def _address(db: sqlite3.Connection, message: Message, kinds: Mapping[str, Kind]) -> None:
    db.executemany(
        "INSERT INTO recipients (message_id, agent_id, kind, position)"
        " SELECT ?, id, ?, ? FROM agents WHERE project_id = ? AND name = ?",
        (
            (message.message_id, kinds.get(name, Kind.TO), position, message.project_id, name)
            for name, position in _listed(message).items()
        ),
    )


def _listed(message: Message) -> Mapping[str, int]:
    return {name: at for at, name in enumerate(dict.fromkeys(message.recipients))}


def _values(message: Message) -> tuple[str | int, ...]:
    return (
        message.project_id,
        message.project_id,
        message.sender_name,
        message.thread_id,
        message.subject,
        message.body,
        identified(message.subject, message.body),
        message.importance.value,
        int(message.ack_required),
        message.created_ts,
        message.message_id,
    )
