"""Vectors of pieces, kept in the index by the content that they stand for."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.vector.bulk import embed_all
from engines.vector.embedder import Embedder

TABLE = "CREATE TABLE vector (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
Half = NDArray[np.float16]


def key_of(embedder: Embedder, text: str) -> bytes:
    """Name the vector of a text by an embedder."""
    return hashlib.sha256(f"{embedder.identity}\n{text}".encode("utf-8", "replace")).digest()


def complete(db: sqlite3.Connection, embedder: Embedder, texts: Sequence[str], cache: Path) -> None:
    """Embed the texts that have no vector yet, and forget the vectors of texts that are gone."""
    wanted = {key_of(embedder, text): text for text in texts}
    known = {row[0] for row in db.execute("SELECT key FROM vector")}
    for key in known - wanted.keys():
        db.execute("DELETE FROM vector WHERE key = ?", (key,))
    missing = [key for key in wanted if key not in known]
    if missing:
        made = embed_all([wanted[key] for key in missing], embedder, cache)
        rows = zip(missing, (row.tobytes() for row in made), strict=True)
        db.executemany("INSERT INTO vector VALUES (?, ?)", rows)


def matrix(db: sqlite3.Connection, embedder: Embedder, texts: Sequence[str]) -> Half | None:
    """Read the vectors of texts, shape (texts, dimension); None where one is missing."""
    held = dict(db.execute("SELECT key, value FROM vector"))
    rows = [held.get(key_of(embedder, text)) for text in texts]
    if any(row is None for row in rows):
        return None
    flat = np.frombuffer(b"".join(row for row in rows if row is not None), dtype=np.float16)
    return flat.reshape(len(texts), embedder.dimension)
