"""Messages of a store written, rewritten and deleted by id, as another program does."""

from __future__ import annotations

from collections.abc import Mapping

from harness_engines.stacks.agent_mail.contract import ChangeKind, DocChange, Message
from harness_engines.stacks.agent_mail.sqlite import store as stores
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind, MessageStore


def insert(
    store: MessageStore, message: Message, kinds: Mapping[str, AddressKind] | None = None
) -> DocChange:
    """Add a message of a new id."""
    store.insert_all([(message, kinds or {})])
    return DocChange(ChangeKind.UPSERT, message.message_id, message)


def update(
    store: MessageStore, message: Message, kinds: Mapping[str, AddressKind] | None = None
) -> DocChange:
    """Write all of a message anew, its recipients too."""
    with store.writing() as db:
        if not stores.update(db, message, kinds or {}):
            raise KeyError(f"no message {message.message_id}")
    return DocChange(ChangeKind.UPSERT, message.message_id, message)


def delete(store: MessageStore, message_id: int) -> DocChange:
    """Remove a message."""
    with store.writing() as db:
        if not db.execute("DELETE FROM messages WHERE id = ?", (message_id,)).rowcount:
            raise KeyError(f"no message {message_id}")
    return DocChange(ChangeKind.DELETE, message_id)
