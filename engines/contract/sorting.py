"""Rows of a corpus in the order of their ids, in memory that does not grow with the corpus."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing

Row = tuple[str, str, str]
"""Id, title and text of a document."""


def sort_by_id(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows in code point order of their ids, then of title and text.

    SQLite sorts them in a temporary database, which it writes to disk where it outgrows the cache.

    Raises:
        sqlite3.Error: the folder for temporary files is full or cannot be written.
    """
    with closing(sqlite3.connect("")) as scratch:
        scratch.execute("PRAGMA journal_mode = OFF")
        scratch.execute("CREATE TABLE document (id TEXT, title TEXT, text TEXT)")
        scratch.executemany("INSERT INTO document VALUES (?, ?, ?)", rows)
        yield from scratch.execute("SELECT id, title, text FROM document ORDER BY id, title, text")
