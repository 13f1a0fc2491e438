"""Damage to a file that somebody may still have mapped: a new file takes its place."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def overwrite(path: Path, content: bytes | bytearray) -> None:
    """Replace a file's content; whoever has the old file open keeps it whole."""
    path.unlink()
    path.write_bytes(content)


def flip(path: Path, at: int = -1) -> None:
    """Alter one byte."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0xFF
    overwrite(path, raw)


def cut(path: Path, by: int = 7) -> None:
    """Take the last bytes away."""
    overwrite(path, path.read_bytes()[:-by])


def run_sql(path: Path, *statements: str) -> None:
    """Do something to a database behind its owner's back."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)
