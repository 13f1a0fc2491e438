"""What models make of chunks, for stages 2 and 3."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines import contract
from engines.kept import index
from engines.rerank import tokens as rerank_tokens
from engines.rerank.tokens import Contents, TokenStore, maxsim, write_tokens
from engines.sparse import SparseStore, Splade, encode_all, sparse_model
from engines.stacks.documents.library import Settings
from engines.stacks.documents.recall import unbroken
from engines.vector import amvi
from engines.vector.amvi import VectorStore
from engines.vector.bulk import embed_all
from engines.vector.embedder import OnnxEmbedder, model, unit
from engines.vector.scan import COSINE_DIGITS, Half, exact_dots
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.files import replacing

DIMENSION = 64
"""Specification 004, section 5: one vector of 64 a token."""
NOTHING = 1e-6
"""Share of the largest eigenvalue below which a direction is what half precision rounds."""
TOKENS_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A linear map of token vectors."""

    components: NDArray[np.float32]
    """Shape (from, ``DIMENSION``); a column is a unit vector, or zeros."""
    kept: float
    """Share of the tokens' squared length that survives, in [0, 1]; 1 where there are none."""

    @classmethod
    def fit(cls, vectors: NDArray[np.float16]) -> Projection:
        """Fit to token vectors, shape (tokens, from); they may be mapped from a file."""
        width = vectors.shape[1]
        moment = np.zeros((width, width))
        for low in range(0, len(vectors), TOKENS_AT_ONCE):
            part = np.asarray(vectors[low : low + TOKENS_AT_ONCE], dtype=np.float32)
            moment += part.T @ part
        values, columns = np.linalg.eigh(moment)
        values, columns = values[::-1][:DIMENSION], columns[:, ::-1][:, :DIMENSION]
        strongest = np.abs(columns).argmax(axis=0)
        columns = columns * np.sign(columns[strongest, np.arange(columns.shape[1])])
        columns = columns * (values > NOTHING * max(values[0], 0.0))
        whole = float(np.trace(moment))
        kept = float(values.clip(0.0).sum()) / whole if whole > 0 else 1.0
        return cls(columns.astype(np.float32), min(1.0, kept))

    def __call__(self, vectors: NDArray[np.float16]) -> NDArray[np.float16]:
        """Map token vectors and scale them to length 1; shape (tokens, ``DIMENSION``)."""
        shorter = np.asarray(vectors, dtype=np.float32) @ self.components
        return unit(shorter).astype(np.float16)

    def write(self, path: Path) -> None:
        """Write the map."""
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez(file, allow_pickle=False, components=self.components, kept=np.array(self.kept))

    @classmethod
    def open(cls, path: Path, width: int) -> Projection:
        """Read a map of vectors of ``width``.

        Raises:
            IndexNotReady: it is missing, broken or of another shape.
        """
        try:
            with path.open("rb") as file, np.load(file) as part:
                found = cls(part["components"], float(part["kept"]))
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as exc:
            raise IndexNotReady(f"{path}: {exc}. Build it again: harness index") from exc
        if found.components.shape != (width, DIMENSION):
            raise IndexNotReady(
                f"{path}: maps {found.components.shape} and not {(width, DIMENSION)}."
                " Build it again: harness index"
            )
        return found


TERMS, TOKENS, PROJECTION = "terms.npz", "tokens.bin", "projection.npz"
MODEL_NOT_READY = "MODEL_NOT_READY"

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


class Missing(NamedTuple):
    """A model that was requested and is not there."""

    part: Literal["E1", "E6", "E12"]
    why: str
    reason: str = MODEL_NOT_READY


@dataclass(frozen=True, slots=True)
class Dense:
    """E1: one vector a chunk."""

    embedder: OnnxEmbedder
    store: VectorStore

    def cosines(self, text: str, rows: Rows) -> Scores:
        """Cosine of a query with chunks, shape (rows,)."""
        query = self.embedder.embed([text])[0].astype(np.float16)
        cosines: Scores = exact_dots(np.asarray(self.store.vectors[rows]), query)
        return cosines.round(COSINE_DIGITS)


@dataclass(frozen=True, slots=True)
class Sparse:
    """E6: weighted terms of each chunk."""

    encoder: Splade
    store: SparseStore

    def dots(self, text: str, rows: Rows) -> Scores:
        """Dot product of a query's terms with those of chunks, shape (rows,)."""
        return self.store.dots(self.encoder.encode(text), rows)


@dataclass(frozen=True, slots=True)
class Late:
    """E12: one short vector a token."""

    embedder: OnnxEmbedder
    projection: Projection
    tokens: TokenStore

    def maxsims(self, text: str, rows: Rows) -> Scores:
        """Mean over the query's tokens of the best cosine in each chunk, shape (rows,)."""
        query = self.projection(self.embedder.read([text]).tokens[0].astype(np.float16))
        return np.array([maxsim(query, self.tokens.of(row)) for row in rows.tolist()])


@dataclass(frozen=True, slots=True)
class Models:
    """What an index has to rank with; None where the settings want none, or it is missing."""

    dense: Dense | None
    sparse: Sparse | None
    late: Late | None
    missing: tuple[Missing, ...]


def embedder_of(settings: Settings) -> OnnxEmbedder:
    """Open E1, whose tokens are E12.

    Raises:
        UnknownName: the model is unknown.
        ModelNotReady: it is absent or not the pinned one.
    """
    return _embedder(settings.embedder, settings.max_tokens)


def encoder_of(settings: Settings) -> Splade:
    """Open E6.

    Raises:
        UnknownName: the model is unknown.
        ModelNotReady: it is absent or not the pinned one.
    """
    return _encoder(settings.sparse, settings.max_tokens)


@cache
def _embedder(name: str, max_tokens: int) -> OnnxEmbedder:
    """Load a model once a process; it never changes."""
    return OnnxEmbedder.load(model(name), max_tokens)


@cache
def _encoder(name: str, max_tokens: int) -> Splade:
    return Splade.load(sparse_model(name), max_tokens)


def identity(settings: Settings) -> str:
    """Say what vectors depend on beside their texts.

    Raises:
        ModelNotReady: a model is absent.
    """
    parts = []
    if settings.embedder:
        parts.append(embedder_of(settings).identity)
    if settings.sparse:
        parts.append(encoder_of(settings).identity)
    return ", ".join(parts)


def read_by_models(text: str) -> str:
    """Join broken words, collapse white space: how a file is laid out is not what it says."""
    return " ".join(unbroken(text).split())


def build(
    settings: Settings, chunk_ids: Sequence[str], texts: Sequence[str], folder: Path, cache: Path
) -> None:
    """Read chunks, in the order of their ids, with every model that the settings want.

    Tokens come first: the pass that makes them makes the vectors of E1. Until they are projected
    they take 768 bytes each beside the index.

    Raises:
        ModelNotReady: a model is absent or not the pinned one.
    """
    read = [read_by_models(text) for text in texts]
    if settings.tier == "pro":
        _write_late(embedder_of(settings), read, folder, cache)
    if settings.embedder:
        amvi.write_store(folder, chunk_ids, embed_all(read, embedder_of(settings), cache))
    if settings.sparse:
        encoder = encoder_of(settings)
        encode_all(read, encoder, encoder.model.terms, cache).write(folder / TERMS)


def _write_late(embedder: OnnxEmbedder, texts: Sequence[str], folder: Path, cache: Path) -> None:
    whole = folder / f"{TOKENS}.whole"
    write_tokens(whole, range(len(texts)), texts, embedder, cache)
    tokens = TokenStore.open(whole, embedder.identity, embedder.dimension)
    projection = Projection.fit(tokens.vectors)

    def fill(slab: Half, offsets: rerank_tokens.Ids) -> None:
        for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            slab[low:high] = projection(tokens.vectors[low:high])

    contents = Contents(tokens.ids, np.diff(tokens.offsets), fill)
    rerank_tokens.write(folder / TOKENS, embedder.identity, DIMENSION, contents)
    projection.write(folder / PROJECTION)
    whole.unlink()


def opened(settings: Settings, chunks: int, folder: Path) -> Models:
    """Open what ``build`` wrote; a model that is not there is named, and does not stop the rest.

    Raises:
        IndexNotReady: a file is missing or broken, or of another number of chunks.
    """
    missing: list[Missing] = []
    dense: Dense | None = None
    sparse: Sparse | None = None
    late: Late | None = None
    try:
        if settings.embedder:
            embedder = embedder_of(settings)
            dense = Dense(embedder, amvi.open_store(folder, embedder.dimension))
            _check(folder, len(dense.store.doc_ids), chunks)
            if settings.tier == "pro":
                late = _late(embedder, folder)
                _check(folder, len(late.tokens.ids), chunks)
    except ModelNotReady as exc:
        missing.append(Missing("E1", str(exc)))
        missing += [Missing("E12", str(exc))] if settings.tier == "pro" else []
    try:
        if settings.sparse:
            sparse = Sparse(encoder_of(settings), SparseStore.open(folder / TERMS))
            _check(folder, len(sparse.store), chunks)
    except ModelNotReady as exc:
        missing.append(Missing("E6", str(exc)))
    return Models(dense, sparse, late, tuple(missing))


def _late(embedder: OnnxEmbedder, folder: Path) -> Late:
    projection = Projection.open(folder / PROJECTION, embedder.dimension)
    try:
        tokens = TokenStore.open(folder / TOKENS, embedder.identity, DIMENSION)
    except contract.IndexUnavailable as exc:
        raise IndexNotReady(f"{exc}. Build it again: harness index") from exc
    return Late(embedder, projection, tokens)


def _check(folder: Path, found: int, chunks: int) -> None:
    if found != chunks:
        raise IndexNotReady(
            f"{folder}: has vectors of {found} chunks where there are {chunks}."
            " Build it again: harness index"
        )


UNFINISHED = "has not read every chunk yet; index the folder to the end"
TABLES = f"""{index.TABLE}
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
            index.complete(db, self.embedder, said, cache)
        if self.encoder is not None:
            _complete(db, self.encoder, said, cache)


def models(db: sqlite3.Connection, loaded: Loaded, texts: Sequence[str]) -> Models:
    """Open what the models made of the chunks; one that is not whole yet is named as missing."""
    said = [read_by_models(text) for text in texts]
    missing = list(loaded.missing)
    dense, sparse = None, None
    if loaded.embedder is not None:
        held = index.matrix(db, loaded.embedder, said)
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
