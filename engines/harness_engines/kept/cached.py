"""What models make of texts, kept in a table of the index and never made twice."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import Embedder

TABLE = """
CREATE TABLE made (key BLOB PRIMARY KEY, value BLOB NOT NULL, made_at TEXT NOT NULL);
"""
Clock = Callable[[], datetime]
Half = NDArray[np.float16]


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


class ModelOutput(NamedTuple):
    """What a model made of texts, in their order."""

    values: tuple[bytes, ...]
    made_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cached:
    """A model whose output is kept by the digest of its identity and the text."""

    identity: str
    make: Callable[[Sequence[str]], Iterable[bytes]]

    def key(self, text: str) -> bytes:
        """Name what the model makes of a text."""
        return hashlib.sha256(f"{self.identity}\n{text}".encode("utf-8", "replace")).digest()

    def of(self, db: Connection, texts: Sequence[str]) -> ModelOutput | None:
        """Read what was made of texts; None where the model has not read one of them."""
        held = {row[0]: row[1:] for row in db.execute("SELECT key, value, made_at FROM made")}
        rows = [row for text in texts if (row := held.get(self.key(text))) is not None]
        if len(rows) < len(texts):
            return None
        return ModelOutput(tuple(row[0] for row in rows), tuple(row[1] for row in rows))


def complete(
    db: Connection, models: Sequence[Cached], texts: Sequence[str], clock: Clock = now
) -> None:
    """Embed the texts that models have not read yet, and forget those that are gone."""
    known = {row[0] for row in db.execute("SELECT key FROM made")}
    wanted = [{model.key(text): text for text in texts} for model in models]
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

    def make(texts: Sequence[str]) -> Iterable[bytes]:
        return (row.tobytes() for row in embed_all(texts, embedder, cache))

    return Cached(embedder.identity, make)


def matrix(values: Sequence[bytes], dimension: int) -> Half:
    """Stack vectors, shape (texts, dimension)."""
    return np.frombuffer(b"".join(values), dtype=np.float16).reshape(len(values), dimension)
