"""More connections to a store that is only read: a long query holds up no other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

MAX_READERS = 7
"""Connections beside the first."""


class Readers:
    """Lends connections, each to one thread at a time; they are made when they are needed."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._lent = 0

    def take(self) -> sqlite3.Connection | None:
        """Lend a connection; None where all are lent, or none can be made."""
        with self._lock:
            if self._lent >= MAX_READERS:
                return None
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except sqlite3.Error:
            with self._lock:
                self._lent -= 1
            return None

    def give(self, db: sqlite3.Connection) -> None:
        """Take a connection back."""
        with self._lock:
            self._lent -= 1
            self._idle.append(db)

    def close(self) -> None:
        """Close what is not lent."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()


@dataclass(frozen=True, slots=True)
class Connections:
    """The first connection to a store, and more of them where it is only read."""

    db: sqlite3.Connection
    _lock: Lock = field(default_factory=Lock)
    readers: Readers | None = None

    @contextmanager
    def borrowed(self, timeout_s: float = -1.0) -> Iterator[sqlite3.Connection | None]:
        """Lend a connection for one statement: the first, or another while that is busy.

        None where all are busy for ``timeout_s``; below 0 it waits as long as it takes.
        """
        free = self._lock.acquire(blocking=False)
        other = None if free or self.readers is None else self.readers.take()
        if other is not None and self.readers is not None:
            try:
                yield other
            finally:
                self.readers.give(other)
        elif free or self._lock.acquire(timeout=timeout_s):
            try:
                yield self.db
            finally:
                self._lock.release()
        else:
            yield None

    def generation(self) -> tuple[int, int]:
        """Count the changes of this connection and of others since it was opened."""
        with self._lock:
            changes = self.db.execute("SELECT total_changes()").fetchall()
            return int(changes[0][0]), int(self.db.execute("PRAGMA data_version").fetchall()[0][0])
