"""Connections to a message store, also after a writer of it was killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

Param = str | int | float | bytes | None
_LEFT = frozenset({sqlite3.SQLITE_READONLY_ROLLBACK, sqlite3.SQLITE_READONLY_RECOVERY})
"""What SQLite says where a writer was killed and only a writer may settle what it left."""


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
        half_done = getattr(exc, "sqlite_errorcode", None) in _LEFT
        if not half_done or not isinstance(db, sqlite3.Connection):
            raise
    (_, _, path), *_ = db.execute("PRAGMA database_list").fetchall()
    undo(Path(path))
    return db.execute(sql, params).fetchall()


@contextmanager
def ahead(db: sqlite3.Connection) -> Iterator[None]:
    """Write ahead of the file (WAL) for so long, so that readers and the writer never wait.

    Afterwards the file stands alone again, unless somebody else is reading it. Where another
    program holds it at the start, everything is as without.
    """
    _journal(db, "WAL")
    try:
        yield
    finally:
        _journal(db, "DELETE")


def _journal(db: sqlite3.Connection, mode: str) -> None:
    with suppress(sqlite3.OperationalError):
        db.execute(f"PRAGMA journal_mode = {mode}").fetchall()


def settle(path: Path) -> None:
    """Bring what was written ahead into the file, unless somebody else has it open."""
    with suppress(sqlite3.Error):
        if path.with_name(f"{path.name}-wal").exists():
            undo(path)


def undo(path: Path) -> None:
    """Take back the change that a killed writer left half done, and take up what it had finished.

    Where no writer left anything, do nothing.

    Raises:
        sqlite3.Error: it cannot be taken back.
    """
    if any(path.with_name(f"{path.name}-{left}").exists() for left in ("journal", "wal")):
        with closing(connect(path, "rw")) as db:
            db.execute("SELECT 1 FROM sqlite_master").fetchall()
            _journal(db, "DELETE")
