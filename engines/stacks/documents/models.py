"""What stages 2 and 3 read chunks with: made when an index is built, opened or found missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.contract import errors as search_errors
from engines.rerank import token_store
from engines.rerank.late_interaction import maxsim
from engines.rerank.token_cache import write_tokens
from engines.rerank.token_store import Contents, TokenStore
from engines.sparse.cached import encode_all
from engines.sparse.models import sparse_model
from engines.sparse.splade import Splade
from engines.sparse.store import SparseStore
from engines.stacks.documents.projection import DIMENSION, Projection
from engines.stacks.documents.settings import Settings
from engines.stacks.documents.words import unbroken
from engines.vector import store
from engines.vector.bulk import embed_all
from engines.vector.models import model
from engines.vector.onnx import OnnxEmbedder
from engines.vector.scan import COSINE_DIGITS, Half, exact_dots
from engines.vector.store import VectorStore
from harness.core.errors import IndexNotReady, ModelNotReady

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
        store.write(folder, chunk_ids, embed_all(read, embedder_of(settings), cache))
    if settings.sparse:
        encoder = encoder_of(settings)
        encode_all(read, encoder, encoder.model.terms, cache).write(folder / TERMS)


def _write_late(embedder: OnnxEmbedder, texts: Sequence[str], folder: Path, cache: Path) -> None:
    whole = folder / f"{TOKENS}.whole"
    write_tokens(whole, range(len(texts)), texts, embedder, cache)
    tokens = TokenStore.open(whole, embedder.identity, embedder.dimension)
    projection = Projection.fit(tokens.vectors)

    def fill(slab: Half, offsets: token_store.Ids) -> None:
        for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            slab[low:high] = projection(tokens.vectors[low:high])

    contents = Contents(tokens.ids, np.diff(tokens.offsets), fill)
    token_store.write(folder / TOKENS, embedder.identity, DIMENSION, contents)
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
            dense = Dense(embedder, store.open_store(folder, embedder.dimension))
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
    except search_errors.IndexUnavailable as exc:
        raise IndexNotReady(f"{exc}. Build it again: harness index") from exc
    return Late(embedder, projection, tokens)


def _check(folder: Path, found: int, chunks: int) -> None:
    if found != chunks:
        raise IndexNotReady(
            f"{folder}: has vectors of {found} chunks where there are {chunks}."
            " Build it again: harness index"
        )
