"""What models make of texts, kept in a table of the index and never made twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import Embedder
from harness_engines.vector.scan import Dots, Half, Rows, dots_of, nearest

TABLE = """
CREATE TABLE made (key BLOB PRIMARY KEY, value BLOB NOT NULL, made_at TEXT NOT NULL);
"""
Clock = Callable[[], datetime]
now = partial(datetime.now, UTC)


class Cached(NamedTuple):
    """A model whose output is kept by the digest of its identity and the text."""

    identity: str
    make: Callable[[Sequence[str]], Iterable[bytes]]


def _key(identity: str, text: str) -> bytes:
    return hashlib.sha256(f"{identity}\n{text}".encode("utf-8", "replace")).digest()


def read(db: Connection, identity: str, texts: Sequence[str]) -> list[tuple[bytes, str]] | None:
    """Read what a model made of each text, and when; None where it has not read one of them."""
    held = {row[0]: row[1:] for row in db.execute("SELECT key, value, made_at FROM made")}
    found = [row for text in texts if (row := held.get(_key(identity, text))) is not None]
    return found if len(found) == len(texts) else None


def complete(
    db: Connection, models: Sequence[Cached], texts: Sequence[str], clock: Clock = now
) -> None:
    """Embed the texts that models have not read yet, and forget those that are gone."""
    known = {row[0] for row in db.execute("SELECT key FROM made")}
    wanted = [{_key(model.identity, text): text for text in texts} for model in models]
    gone = known.difference(*wanted)
    db.executemany("DELETE FROM made WHERE key = ?", ((key,) for key in gone))
    for model, by_key in zip(models, wanted, strict=True):
        missing = [key for key in by_key if key not in known]
        if missing:
            values = model.make([by_key[key] for key in missing])
            when = clock().isoformat()
            rows = zip(missing, values, [when] * len(missing), strict=True)
            db.executemany("INSERT INTO made VALUES (?, ?, ?)", rows)


def vectors_of(embedder: Embedder, cache: Path) -> Cached:
    """Keep the vectors of an embedder."""
    return Cached(embedder.identity, lambda texts: map(bytes, embed_all(texts, embedder, cache)))


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of all texts of an index, and what embeds a query."""

    embedder: Embedder
    vectors: Half
    """Shape (texts, dimension)."""
    made_at: tuple[str, ...]

    @classmethod
    def read(cls, db: Connection, embedder: Embedder, texts: Sequence[str]) -> Vectors | None:
        """Read the vectors of texts; None where one is missing."""
        made = read(db, embedder.identity, texts)
        if made is None:
            return None
        whole = np.frombuffer(b"".join(value for value, _ in made), dtype=np.float16)
        vectors = whole.reshape(len(texts), embedder.dimension)
        return cls(embedder, vectors, tuple(when for _, when in made))

    def nearest(self, text: str, depth: int, allowed: Rows | None) -> list[tuple[int, float]]:
        """Find the rows of highest positive cosine, with it; equal ones by row."""
        if not len(self.vectors) or (allowed is not None and not len(allowed)):
            return []
        rows, cosines = nearest(self.vectors, self.embedder.embed([text])[0], depth, allowed)
        found = zip(rows.tolist(), cosines.tolist(), strict=True)
        return [(row, cosine) for row, cosine in found if cosine > 0]

    def cosines(self, text: str, rows: NDArray[np.int64]) -> Dots:
        """Compute the cosines of rows with a query, shape (rows,)."""
        return dots_of(self.vectors, self.embedder.embed([text])[0], rows)
