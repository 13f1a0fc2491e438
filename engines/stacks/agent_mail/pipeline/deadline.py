"""A message store that keeps a query's deadline: what was left does not hold up the others."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engines.stacks.agent_mail.budget import CURRENT
from engines.stacks.agent_mail.sqlite.connecting import Param, rows
from engines.stacks.agent_mail.sqlite.store import MessageStore

STEPS = 4_096
"""Steps of SQLite's machine between two looks at the clock, well below a millisecond."""


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
        """Read rows, until the deadline of the work that asks.

        Raises:
            sqlite3.Error: SQLite refuses.
            EngineError: the deadline came first, while it read or while another statement did.
        """
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
