"""A message in the tables: its values, its agents, how it is addressed, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from engines.lexical.identifiers import identifiers
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.contract.query import Importance
from engines.stacks.agent_mail.sqlite.schema import whole


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
    " importance, ack_required, created_ts, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE messages SET project_id = ?, sender_id = ?, thread_id = ?, subject = ?, body = ?,"
    " identifiers = ?, importance = ?, ack_required = ?, created_ts = ? WHERE id = ?"
)
_ADDRESS = "INSERT INTO recipients (message_id, agent_id, kind, position) VALUES (?, ?, ?, ?)"
BATCH = 1_000
"""Messages written by one statement a table."""

Addressed = tuple[Message, Mapping[str, Kind]]
Agents = dict[tuple[int, str], int]
"""Ids by project and name."""


def read(rows: Sequence[tuple[Any, ...]]) -> list[Message]:
    """Make messages of rows of ``READ``; the recipients of all are parsed in one go."""
    recipients = json.loads(f"[{','.join([row[5] for row in rows])}]")
    return list(map(_message, rows, recipients))


def _message(row: tuple[Any, ...], recipients: list[str]) -> Message:
    message_id, project_id, subject, body, sender, _, thread, how, ack, created_ts = row
    return Message(
        message_id,
        project_id,
        subject,
        body,
        sender,
        tuple(recipients),
        thread,
        Importance(how),
        bool(ack),
        created_ts,
    )


def identified(*texts: str) -> str:
    """Write the identifiers of what is searched together, as the index keeps them."""
    return whole(identifiers("\n".join(texts)))


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


def update(db: sqlite3.Connection, message: Message, kinds: Mapping[str, Kind]) -> bool:
    """Write all of a message anew; say whether there is one of this id."""
    agents: Agents = {}
    _know(db, message, agents)
    if not db.execute(_UPDATE, _values(message, agents)).rowcount:
        return False
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
            "INSERT INTO agents (project_id, name, identifiers) VALUES (?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (*of, identified(name)),
        )
        found = db.execute("SELECT id FROM agents WHERE project_id = ? AND name = ?", of)
        agents[of] = found.fetchone()[0]


def _addresses(
    message: Message, kinds: Mapping[str, Kind], agents: Agents
) -> Iterator[tuple[int, int, Kind, int]]:
    for position, name in enumerate(dict.fromkeys(message.recipients)):
        agent = agents[message.project_id, name]
        yield message.message_id, agent, kinds.get(name, Kind.TO), position


def _values(message: Message, agents: Agents) -> tuple[str | int, ...]:
    return (
        message.project_id,
        agents[message.project_id, message.sender_name],
        message.thread_id,
        message.subject,
        message.body,
        identified(message.subject, message.body),
        message.importance.value,
        int(message.ack_required),
        message.created_ts,
        message.message_id,
    )
