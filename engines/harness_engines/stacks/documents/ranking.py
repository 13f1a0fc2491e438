"""The three stages: recall 500 chunks, rank 100, fuse and rerank them, by models (004, 1-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harness.core.errors import IndexNotReady, ModelNotReady
from harness_engines import contract
from harness_engines.kept.cached import (
    TABLE,
    Cached,
    Clock,
    Vectors,
    complete,
    now,
    read,
    vectors_of,
)
from harness_engines.lexical.grammar import positive
from harness_engines.rerank import Ids, TokenStore, maxsim, write, write_tokens
from harness_engines.sparse import Splade, dots, encode_all, sparse_model, stacked
from harness_engines.sparse import loaded as loaded_encoder
from harness_engines.stacks.documents.library import Bm25, DocumentSettings, unbroken
from harness_engines.vector.embedder import OnnxEmbedder, loaded, model, unit
from harness_engines.vector.scan import Half

DIMENSION = 64
"""Specification 004, section 5: one vector of 64 a token."""
NOTHING = 1e-6
"""Share of the largest eigenvalue below which a direction is what half precision rounds."""
TOKENS_AT_ONCE = 1 << 15
TOKENS = "tokens.bin"
TABLES = f"""
{TABLE}
CREATE TABLE projection (tokens TEXT PRIMARY KEY, components BLOB NOT NULL);
"""
"""What models made of texts; and what maps the tokens that are in a file of a name."""
Single = NDArray[np.float32]


def fit_projection(vectors: Half) -> Single:
    """Fit a linear map to token vectors, shape (tokens, from); they may be mapped from a file.

    Its shape is (from, ``DIMENSION``); a column is a unit vector, or zeros.
    """
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
    return np.asarray(columns, dtype=np.float32)


def projected(vectors: Half, projection: Single) -> Half:
    """Map token vectors and scale them to length 1; shape (tokens, ``DIMENSION``)."""
    return unit(np.asarray(vectors, dtype=np.float32) @ projection).astype(np.float16)


MODEL_NOT_READY = "MODEL_NOT_READY"
UNFINISHED = "has not read every chunk yet; index the folder to the end"

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


class MissingModel(NamedTuple):
    """A model that was requested and is not there."""

    part: Literal["E1", "E6", "E12"]
    why: str
    reason: str = MODEL_NOT_READY


@dataclass(frozen=True, slots=True)
class Sparse:
    """E6: weighted terms of each chunk."""

    encoder: Splade
    store: csr_array

    def dots(self, text: str, rows: Rows) -> Scores:
        """Dot product of a query's terms with those of chunks, shape (rows,)."""
        return dots(self.store, self.encoder.encode(text), rows)


@dataclass(frozen=True, slots=True)
class Late:
    """E12: one short vector a token."""

    embedder: OnnxEmbedder
    projection: Single
    """Shape (dimension of the embedder, ``DIMENSION``)."""
    tokens: TokenStore

    def maxsims(self, text: str, rows: Rows) -> Scores:
        """Mean over the query's tokens of the best cosine in each chunk, shape (rows,)."""
        read = self.embedder.read([text]).tokens[0].astype(np.float16)
        query = projected(read, self.projection)
        return np.array([maxsim(query, self.tokens.of(row)) for row in rows.tolist()])


@dataclass(frozen=True, slots=True)
class Models:
    """What an index has to rank with; None where the settings want none, or it is missing."""

    dense: Vectors | None
    """E1: one vector a chunk."""
    sparse: Sparse | None
    late: Late | None
    missing: tuple[MissingModel, ...]
    embedded_at: tuple[str, ...] = ()
    """When the last model read each chunk; empty where none did."""


def embedder_of(settings: DocumentSettings) -> OnnxEmbedder:
    """Open E1, whose tokens are E12."""
    return loaded(model(settings.embedder), settings.max_tokens)


def encoder_of(settings: DocumentSettings) -> Splade:
    """Open E6."""
    return loaded_encoder(sparse_model(settings.sparse), settings.max_tokens)


def read_by_models(text: str) -> str:
    """Join broken words, collapse white space: how a file is laid out is not what it says."""
    return " ".join(unbroken(text).split())


@dataclass(frozen=True, slots=True)
class Loaded:
    """The models of an arm that are there."""

    embedder: OnnxEmbedder | None
    encoder: Splade | None
    is_late: bool
    """Whether chunks are reranked token by token."""
    missing: tuple[MissingModel, ...]
    cache: Path

    @classmethod
    def of(cls, settings: DocumentSettings, cache: Path) -> Loaded:
        """Load what the settings name; what is absent is named, and does not stop the rest."""
        embedder, encoder = None, None
        missing: list[MissingModel] = []
        is_late = settings.tier == "pro"
        try:
            embedder = embedder_of(settings) if settings.embedder else None
        except ModelNotReady as exc:
            missing.append(MissingModel("E1", str(exc)))
            missing += [MissingModel("E12", str(exc))] if is_late else []
        try:
            encoder = encoder_of(settings) if settings.sparse else None
        except ModelNotReady as exc:
            missing.append(MissingModel("E6", str(exc)))
        return cls(embedder, encoder, is_late and embedder is not None, tuple(missing), cache)

    @property
    def identities(self) -> list[str]:
        """What vectors and terms depend on beside their texts."""
        return [model.identity for model in (self.embedder, self.encoder) if model is not None]

    def complete(
        self, db: Connection, texts: Sequence[str], folder: Path, clock: Clock = now
    ) -> None:
        """Embed, by the models that are there, the texts that they have not read yet."""
        said = [read_by_models(text) for text in texts]
        models = []
        if self.embedder is not None:
            models.append(vectors_of(self.embedder, self.cache))
            if self.is_late:
                _write_late(db, self.embedder, said, folder, self.cache)
        if self.encoder is not None:
            models.append(_terms_of(self.encoder, self.cache))
        complete(db, models, said, clock)

    def opened(self, db: Connection, texts: Sequence[str], folder: Path) -> Models:
        """Open what the models made of chunks; one that has not read them all is missing."""
        said = [read_by_models(text) for text in texts]
        missing, dense, sparse, late = list(self.missing), None, None, None
        times: list[tuple[str, ...]] = []
        if self.embedder is not None:
            if dense := Vectors.read(db, self.embedder, said):
                times.append(dense.made_at)
            else:
                missing.append(MissingModel("E1", UNFINISHED))
            late = _late(db, self.embedder, said, folder) if self.is_late else None
            if self.is_late and late is None:
                missing.append(MissingModel("E12", UNFINISHED))
        if self.encoder is not None:
            made = read(db, self.encoder.identity, said)
            if made is not None:
                rows = [_terms(value) for value, _ in made]
                store = stacked(rows, self.encoder.model.terms)
                sparse = Sparse(self.encoder, store)
                times.append(tuple(when for _, when in made))
            else:
                missing.append(MissingModel("E6", UNFINISHED))
        embedded_at = tuple(map(max, zip(*times, strict=True)))
        return Models(dense, sparse, late, tuple(missing), embedded_at)


def _terms_of(encoder: Splade, cache: Path) -> Cached:
    """Keep the terms of an encoder and, as long, their weights."""

    def make(texts: Sequence[str]) -> Iterable[bytes]:
        rows = encode_all(texts, encoder, cache)
        return (terms.astype(np.uint16).tobytes() + weights.tobytes() for terms, weights in rows)

    return Cached(encoder.identity, make)


def _terms(value: bytes) -> tuple[Rows, Half]:
    half = len(value) // 2
    terms = np.frombuffer(value[:half], dtype=np.uint16)
    return terms.astype(np.int64), np.frombuffer(value[half:], dtype=np.float16)


def _write_late(
    db: Connection, embedder: OnnxEmbedder, texts: Sequence[str], folder: Path, cache: Path
) -> None:
    """Write the tokens of texts and their projection, and drop those of other texts."""
    to = _late_file(folder, embedder, texts)
    if _projection(db, to) is not None:
        return
    whole = folder / f"{TOKENS}.whole"
    write_tokens(whole, range(len(texts)), texts, embedder, cache)
    tokens = TokenStore.open(whole, embedder.identity, embedder.dimension)
    projection = fit_projection(tokens.vectors)

    def fill(slab: Half, offsets: Ids) -> None:
        for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            slab[low:high] = projected(tokens.vectors[low:high], projection)

    for old in folder.glob(f"*-{TOKENS}"):
        old.unlink()
    lengths = np.diff(tokens.offsets)
    write(to, embedder.identity, DIMENSION, tokens.ids, lengths, fill=fill)
    whole.unlink()
    db.execute("DELETE FROM projection")
    db.execute("INSERT INTO projection VALUES (?, ?)", (to.name, projection.tobytes()))


def _late(
    db: Connection, embedder: OnnxEmbedder, texts: Sequence[str], folder: Path
) -> Late | None:
    """Open the tokens of texts; None where they are not written."""
    where = _late_file(folder, embedder, texts)
    held = _projection(db, where)
    if held is None:
        return None
    projection = np.frombuffer(held, dtype=np.float32).reshape(embedder.dimension, -1)
    try:
        tokens = TokenStore.open(where, embedder.identity, DIMENSION)
    except contract.IndexUnavailable as exc:
        raise IndexNotReady(f"{exc}. Build it again: harness stage index") from exc
    return Late(embedder, projection, tokens)


def _late_file(folder: Path, embedder: OnnxEmbedder, texts: Sequence[str]) -> Path:
    """Name a file by its texts: one of other texts is never taken for it."""
    said = hashlib.sha256("\0".join([embedder.identity, *texts]).encode("utf-8", "replace"))
    return folder / f"{said.hexdigest()[:16]}-{TOKENS}"


def _projection(db: Connection, tokens: Path) -> bytes | None:
    """Read what maps the tokens of a file; None where one of the two is missing."""
    asked = "SELECT components FROM projection WHERE tokens = ?"
    found = db.execute(asked, (tokens.name,)).fetchone()
    return bytes(found[0]) if found and tokens.is_file() else None


RRF_K = 60.0
"""Specification 004, section 4."""
BASE_WEIGHT, MAXSIM_WEIGHT = 0.4, 0.6
"""Specification 004, section 5."""
SCORE_DIGITS = 12
"""Sums differ below that by their order."""

RECALLED, RANKED = 500, 100
"""Specification 004, section 1."""
DENSE_WEIGHT, SPARSE_WEIGHT = 1.0, 0.8
"""Of E1 and E6; specification 004, section 2."""
BM25, SEMANTIC, COLBERT = "bm25", "semantic", "colbert"
"""Names of the stages in an answer; specification 004, section 7."""


class RankedChunks(NamedTuple):
    """Chunks found for a query, best first."""

    rows: NDArray[np.int64]
    """Positions of chunks; equal scores go by position, which is by chunk id."""
    scores: NDArray[np.float64]
    """In [0, 1]."""
    stages_used: tuple[str, ...]
    """Those that ran."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages over one open index."""

    settings: DocumentSettings
    recall: Bm25
    models: Models

    def rank(self, text: str, allowed: NDArray[np.bool_] | None = None) -> RankedChunks:
        """Rank at most ``RANKED`` chunks; ``allowed``, shape (chunks,), says which may be found.

        A stage whose model is missing is left out, and so is not among ``stages_used``. Without
        stage 2 the order is that of recall. Of a text that only refuses words, what ``allowed``
        leaves is listed.
        """
        typed = positive(text)
        if not typed and allowed is not None:
            rows = np.flatnonzero(allowed)[:RANKED]
            return RankedChunks(rows, np.zeros(len(rows)), ())
        rows = self.recall.search(typed, RECALLED, allowed)
        used = [BM25]
        if not len(rows):
            return RankedChunks(rows, np.zeros(0), tuple(used))
        recalled = -np.arange(len(rows), dtype=np.float64)
        legs = list(self._models(typed, rows).values())
        if legs:
            used.append(SEMANTIC)
        if legs and self.settings.fusion == "specification":
            scores = as_specified(legs, len(rows))
        else:
            weight = self.settings.recall_weight if legs else 1.0
            scores = by_rank([*legs, *([Leg(recalled, weight)] if weight else [])], len(rows))
        rows, scores = _best(rows, scores)
        if self.models.late is not None:
            used.append(COLBERT)
            maxsims = self.models.late.maxsims(typed, rows)
            rows, scores = _best(rows, blend_as_specified(scores, maxsims))
        return RankedChunks(rows, scores, tuple(used))

    def legs(self, text: str, rows: NDArray[np.int64]) -> Mapping[str, list[float | int | None]]:
        """Return of chunks their rank in recall, the cosine of E1 and the dot product of E6."""
        typed = positive(text)
        if not typed or not len(rows):
            return {}
        recalled = self.recall.search(typed, RECALLED, None).tolist()
        ranks = {row: at for at, row in enumerate(recalled, start=1)}
        told: dict[str, list[float | int | None]] = {BM25: [ranks.get(r) for r in rows.tolist()]}
        said = self._models(typed, rows)
        return told | {name: leg.scores.tolist() for name, leg in said.items()}

    def _models(self, text: str, rows: NDArray[np.int64]) -> dict[str, Leg]:
        """Compute what the models that are there say of chunks."""
        legs = {}
        if self.models.dense is not None:
            legs["e1"] = Leg(self.models.dense.cosines(text, rows), DENSE_WEIGHT)
        if self.models.sparse is not None:
            legs["e6"] = Leg(self.models.sparse.dots(text, rows), SPARSE_WEIGHT)
        return legs


def _best(rows: NDArray[np.int64], scores: Scores) -> tuple[NDArray[np.int64], Scores]:
    """Order by score, equal ones by chunk, and keep ``RANKED``."""
    kept = np.lexsort((rows, -scores))[:RANKED]
    return rows[kept], scores[kept]


class Leg(NamedTuple):
    """What one model says of all candidates, and how much it counts."""

    scores: Scores
    weight: float


def clean(scores: Scores) -> Scores:
    """Bring scores to where they can be ordered: what is not a number becomes 0."""
    known = np.where(np.isnan(scores), 0.0, scores)
    return np.round(np.clip(known, 0.0, 1.0), SCORE_DIGITS)


def ranks(scores: Scores) -> Scores:
    """Rank of each candidate from 1; equal scores share the best of their ranks."""
    known = np.where(np.isnan(scores), -np.inf, scores)
    return np.searchsorted(np.sort(-known), -known).astype(np.float64) + 1.0


def as_specified(legs: Sequence[Leg], count: int) -> Scores:
    """Sum weight / (60 + 1 / score) over the legs; a score of 0 or less adds nothing.

    Specification 004, section 4. It calls this reciprocal rank fusion, and it has no rank in it:
    with weights 1.0 and 0.8 no sum passes 0.03.
    """
    total = np.zeros(count)
    for leg in legs:
        counts = leg.scores > 0
        with np.errstate(over="ignore"):
            inverse = np.divide(1.0, leg.scores, out=np.full(count, np.inf), where=counts)
        total += np.where(counts, leg.weight / (RRF_K + inverse), 0.0)
    return clean(total)


def by_rank(legs: Sequence[Leg], count: int) -> Scores:
    """Sum weight / (60 + rank) over the legs, as a share of the largest sum there can be.

    Cormack, Clarke and Buettcher, SIGIR 2009. Candidates that a leg scores alike share a rank, so
    a leg that has nothing to say does not decide.
    """
    if not legs:
        return np.zeros(count)
    total = np.zeros(count)
    for leg in legs:
        total += leg.weight / (RRF_K + ranks(leg.scores))
    return clean(total * (RRF_K + 1) / sum(leg.weight for leg in legs))


def blend_as_specified(base: Scores, maxsim: Scores) -> Scores:
    """0.4 * base + 0.6 * maxsim (specification 004, section 5)."""
    return clean(BASE_WEIGHT * base + MAXSIM_WEIGHT * np.maximum(maxsim, 0.0))
