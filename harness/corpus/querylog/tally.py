"""How often each query of a log came, counted on disk within a bound on memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from harness.core.durable.scratch import scratch

AT_ONCE = 20_000
"""Distinct queries that are held in memory before they are added to the file."""
_MAKE = """
CREATE TABLE query (key TEXT PRIMARY KEY, text TEXT, masked INTEGER, requests INTEGER,
                    known INTEGER, empty INTEGER) WITHOUT ROWID
"""
_ADD = """
INSERT INTO query VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
requests = requests + excluded.requests, known = known + excluded.known,
empty = empty + excluded.empty
"""


class Counted(NamedTuple):
    """One query, and its requests."""

    key: str
    """Its words, caseless: queries of one key are the same."""
    text: str
    """As it came first, masked."""
    masked: bool
    requests: int
    known: int
    """Requests whose number of results the log tells."""
    empty: int
    """Requests of these without any result."""

    @property
    def finds_nothing(self) -> bool:
        """Whether most of its requests had no result."""
        return 2 * self.empty > self.known


class Tally:
    """Counts of queries by key."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._new: dict[str, Counted] = {}

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        """Begin an empty one on disk, gone after the block; only its user can read it."""
        with scratch() as folder, closing(sqlite3.connect(_made(folder / "tally.db"))) as db:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA temp_store = FILE")
            db.execute(_MAKE)
            yield cls(db)

    def add(self, key: str, text: str, *, masked: bool, results: int | None) -> None:
        """Count one request."""
        was = self._new.get(key) or Counted(key, text, masked, 0, 0, 0)
        known, empty = results is not None, results == 0
        self._new[key] = was._replace(
            requests=was.requests + 1, known=was.known + known, empty=was.empty + empty
        )
        if len(self._new) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Add what is in memory to the file."""
        self._db.executemany(_ADD, self._new.values())
        self._new.clear()

    def by_frequency(self) -> Iterator[Counted]:
        """Yield every query, the most frequent first, equals by key."""
        self.flush()
        for row in self._db.execute("SELECT * FROM query ORDER BY requests DESC, key"):
            key, text, masked, *counts = row
            yield Counted(key, text, bool(masked), *counts)

    def count_of(self, key: str) -> int:
        """Count the requests of one query."""
        self.flush()
        found = self._db.execute("SELECT requests FROM query WHERE key = ?", (key,)).fetchone()
        return int(found[0]) if found else 0


def _made(path: Path) -> Path:
    """Make a file that is empty; where that is refused, SQLite would not say why."""
    path.touch()
    return path
