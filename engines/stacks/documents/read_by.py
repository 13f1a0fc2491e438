"""What models make of the chunks of a kept folder, each text once."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engines.kept import vectors
from engines.sparse.cached import encode_all
from engines.sparse.splade import Splade
from engines.sparse.store import SparseStore
from engines.stacks.documents.models import (
    Dense,
    Missing,
    Models,
    Sparse,
    embedder_of,
    encoder_of,
    read_by_models,
)
from engines.stacks.documents.settings import Settings
from engines.vector.onnx import OnnxEmbedder
from engines.vector.store import VectorStore
from harness.core.errors import ModelNotReady

UNFINISHED = "has not read every chunk yet; index the folder to the end"
TABLES = f"""{vectors.TABLE}
CREATE TABLE sparse (key BLOB PRIMARY KEY, terms BLOB NOT NULL, weights BLOB NOT NULL)
  WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The models of an arm that are there."""

    embedder: OnnxEmbedder | None
    encoder: Splade | None
    missing: tuple[Missing, ...]

    @classmethod
    def of(cls, settings: Settings) -> Loaded:
        """Load what the settings name; what is absent is named, and does not stop the rest."""
        embedder, encoder = None, None
        missing: list[Missing] = []
        try:
            embedder = embedder_of(settings) if settings.embedder else None
        except ModelNotReady as exc:
            missing.append(Missing("E1", str(exc)))
        try:
            encoder = encoder_of(settings) if settings.sparse else None
        except ModelNotReady as exc:
            missing.append(Missing("E6", str(exc)))
        return cls(embedder, encoder, tuple(missing))

    def complete(self, db: sqlite3.Connection, texts: Sequence[str], cache: Path) -> None:
        """Let the models that are there read the texts that they have not read yet."""
        said = [read_by_models(text) for text in texts]
        if self.embedder is not None:
            vectors.complete(db, self.embedder, said, cache)
        if self.encoder is not None:
            _complete(db, self.encoder, said, cache)


def models(db: sqlite3.Connection, loaded: Loaded, texts: Sequence[str]) -> Models:
    """Open what the models made of the chunks; one that is not whole yet is named as missing."""
    said = [read_by_models(text) for text in texts]
    missing = list(loaded.missing)
    dense, sparse = None, None
    if loaded.embedder is not None:
        held = vectors.matrix(db, loaded.embedder, said)
        if held is None:
            missing.append(Missing("E1", UNFINISHED))
        else:
            dense = Dense(loaded.embedder, VectorStore((), held))
    if loaded.encoder is not None:
        terms = _sparse(db, loaded.encoder, said)
        if terms is None:
            missing.append(Missing("E6", UNFINISHED))
        else:
            sparse = Sparse(loaded.encoder, terms)
    return Models(dense, sparse, None, tuple(missing))


def _sparse(db: sqlite3.Connection, encoder: Splade, texts: Sequence[str]) -> SparseStore | None:
    held = {row[0]: row[1:] for row in db.execute("SELECT key, terms, weights FROM sparse")}
    rows = [held.get(_key(encoder, text)) for text in texts]
    if any(row is None for row in rows):
        return None
    made = [
        (
            np.frombuffer(row[0], dtype=np.uint16).astype(np.int64),
            np.frombuffer(row[1], dtype=np.float16),
        )
        for row in rows
        if row is not None
    ]
    return SparseStore.of(made, encoder.model.terms)


def _complete(db: sqlite3.Connection, encoder: Splade, texts: Sequence[str], cache: Path) -> None:
    """Encode texts that have no terms yet, and forget those of texts that are gone."""
    wanted = {_key(encoder, text): text for text in texts}
    known = {row[0] for row in db.execute("SELECT key FROM sparse")}
    db.executemany("DELETE FROM sparse WHERE key = ?", ((key,) for key in known - wanted.keys()))
    missing = [key for key in wanted if key not in known]
    if missing:
        made = encode_all([wanted[key] for key in missing], encoder, encoder.model.terms, cache)
        cuts = made.offsets[1:-1]
        parts = zip(missing, np.split(made.terms, cuts), np.split(made.weights, cuts), strict=True)
        rows = ((key, terms.tobytes(), weights.tobytes()) for key, terms, weights in parts)
        db.executemany("INSERT INTO sparse VALUES (?, ?, ?)", rows)


def _key(encoder: Splade, text: str) -> bytes:
    return hashlib.sha256(f"{encoder.identity}\n{text}".encode("utf-8", "replace")).digest()
