"""Messages written while they are searched: inserted, edited and deleted, each in one transaction.

The journal is written in the same transaction, so every index learns of a change, or none does.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from time import time_ns
from typing import NamedTuple, TypedDict, Unpack

from harness_engines.contract import EngineError, InvalidQuery
from harness_engines.stacks.agent_mail.contract import Importance, Message
from harness_engines.stacks.agent_mail.sqlite import store
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind, MessageStore

_NEXT = (
    "SELECT max(coalesce((SELECT max(id) FROM messages), 0),"
    " coalesce((SELECT max(message_id) FROM changes), 0)) + 1"
)
"""An id above all that messages have or had: the journal remembers deleted ones."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that has no id yet."""

    project_id: int
    subject: str
    body: str
    sender_name: str
    recipients: tuple[str, ...] = ()
    thread_id: str = ""
    importance: Importance = Importance.NORMAL
    ack_required: bool = False
    created_ts: int | None = None
    """Microseconds since 1970 UTC; None is now."""

    def numbered(self, message_id: int) -> Message:
        """Return the message of this id."""
        sent = time_ns() // 1_000 if self.created_ts is None else self.created_ts
        return Message(message_id, *astuple(replace(self, created_ts=sent)))


class Edit(TypedDict, total=False):
    """What may be written anew of a message."""

    subject: str
    body: str
    recipients: tuple[str, ...]
    thread_id: str
    importance: Importance
    ack_required: bool


class IngestedMessages(NamedTuple):
    """Messages that were written, and the generation of the table after that."""

    message_ids: tuple[int, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Ingest:
    """Writes to one message store; threads may share it."""

    store: MessageStore

    def insert(
        self, draft: Draft, kinds: Mapping[str, AddressKind] | None = None
    ) -> IngestedMessages:
        """Write a message under a new id; ids of deleted messages are not given again."""
        return self.insert_all([draft], kinds)

    def insert_all(
        self, drafts: Iterable[Draft], kinds: Mapping[str, AddressKind] | None = None
    ) -> IngestedMessages:
        """Write many messages, all or none."""
        with self._writing() as db:
            first = int(db.execute(_NEXT).fetchone()[0])
            given = [one.numbered(at) for at, one in enumerate(drafts, start=first)]
            for project in sorted({one.project_id for one in given}):
                if not db.execute("SELECT 1 FROM projects WHERE id = ?", (project,)).fetchone():
                    raise InvalidQuery(f"project {project} is missing; add it first")
            store.insert_all(db, [(one, kinds or {}) for one in given])
            return _written(db, *(one.message_id for one in given))

    def edit(self, message_id: int, **new: Unpack[Edit]) -> IngestedMessages:
        """Write parts of a message anew; how it is addressed stays for recipients that stay."""
        known = self.store.hydrate([message_id]).get(message_id)
        kinds = self.store.kinds_of(message_id)
        with self._writing() as db:
            if known is None or not store.update(db, replace(known, **new), kinds):
                raise InvalidQuery(f"message {message_id} is missing")
            return _written(db, message_id)

    def delete(self, message_id: int) -> IngestedMessages:
        """Remove a message."""
        with self._writing() as db:
            if not db.execute("DELETE FROM messages WHERE id = ?", (message_id,)).rowcount:
                raise InvalidQuery(f"message {message_id} is missing")
            return _written(db, message_id)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self.store.writing() as db:
                yield db
        except sqlite3.Error as exc:
            raise EngineError(f"the message store cannot be written: {exc}") from exc


@contextmanager
def opened(path: Path) -> Iterator[Ingest]:
    """Open the message store of an index for writing."""
    with store.opened(path, write=True) as made, store.ahead(made.db):
        yield Ingest(made)


def _written(db: sqlite3.Connection, *message_ids: int) -> IngestedMessages:
    (found,) = db.execute("SELECT value FROM generation").fetchone()
    return IngestedMessages(message_ids, int(found))
