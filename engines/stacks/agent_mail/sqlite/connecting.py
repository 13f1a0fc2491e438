"""Connections to a message store, also after a writer of it was killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Param = str | int | float | bytes | None


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to the file ``path``; ``mode`` is that of an SQLite address."""
    where = f"{path.resolve().as_uri()}?mode={mode}"
    db = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA foreign_keys = ON")
    return db


def rows(db: sqlite3.Connection, sql: str, params: Sequence[Param]) -> list[tuple[Any, ...]]:
    """Read rows, also where a writer was killed in the middle of a change and left it to undo.

    Raises:
        sqlite3.Error: SQLite refuses.
    """
    try:
        return db.execute(sql, params).fetchall()
    except sqlite3.OperationalError as exc:
        half_done = getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK
        if not half_done or not isinstance(db, sqlite3.Connection):
            raise
    (_, _, path), *_ = db.execute("PRAGMA database_list").fetchall()
    undo(Path(path))
    return db.execute(sql, params).fetchall()


def undo(path: Path) -> None:
    """Take back the change that a killed writer left half done; where there is none, do nothing.

    Raises:
        sqlite3.Error: it cannot be taken back.
    """
    if path.with_name(f"{path.name}-journal").exists():
        with closing(connect(path, "rw")) as db:
            db.execute("SELECT 1 FROM sqlite_master").fetchall()
