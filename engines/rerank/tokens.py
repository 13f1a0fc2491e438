"""Token vectors of texts: stored, cached, and compared by late interaction."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import numkong
import numpy as np
from numpy.typing import NDArray

from engines.contract import EngineError, IndexUnavailable
from engines.rerank.cross_encoder import Reranked
from engines.vector import bulk
from engines.vector.amvi import HALF_BYTES, Format, Said, aligned, crc, vectors_at
from engines.vector.embedder import Reading, TokenEmbedder
from engines.vector.scan import COSINE_DIGITS
from engines.vector.scan import Half as HalfVectors
from harness.core.files import replacing

TOKEN_FORMAT = Format("file of token vectors", b"TOKS", 1, struct.Struct("<4sHHIQQ4xI4x"))
TABLE_ALIGNED, SLAB_ALIGNED = 8, 32

Ids = NDArray[np.int64]


class Contents(NamedTuple):
    """What is to be written."""

    ids: Ids
    """Shape (texts,), ascending."""
    lengths: Ids
    """Tokens of each text."""
    fill: Callable[[HalfVectors, Ids], None]
    """Writes every vector into a slab of shape (tokens, dimension), text n from offset n on."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a file begin, in bytes."""

    embedder_bytes: int
    dimension: int
    texts: int
    tokens: int

    @property
    def ids(self) -> int:
        """After the embedder id."""
        return aligned(TOKEN_FORMAT.size + self.embedder_bytes, TABLE_ALIGNED)

    @property
    def offsets(self) -> int:
        """After the ids."""
        return self.ids + self.texts * 8

    @property
    def slab(self) -> int:
        """After the offsets table."""
        return aligned(self.offsets + (self.texts + 1) * 8, SLAB_ALIGNED)

    @property
    def size(self) -> int:
        """Of the whole file."""
        return self.slab + self.tokens * self.dimension * HALF_BYTES


class Tokens(Protocol):
    """Token vectors of texts."""

    def of(self, text_id: int) -> HalfVectors:
        """Vectors of one text's tokens, shape (tokens, dimension)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """An open file; its vectors stay mapped, also when the file is replaced."""

    ids: Ids
    """Shape (texts,), strictly ascending."""
    offsets: Ids
    """Shape (texts + 1,)."""
    vectors: HalfVectors
    """Shape (tokens, dimension), mapped from the file."""

    @classmethod
    def open(cls, path: Path, embedder_id: str, dimension: int) -> TokenStore:
        """Read and check the whole file once, then map its vectors."""
        try:
            with path.open("rb") as file:
                return _read(file, embedder_id, dimension)
        except (OSError, ValueError) as exc:
            raise IndexUnavailable(f"{path}: {exc}. Build the token vectors anew") from exc

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, text_id: int) -> HalfVectors:
        """Vectors of one text's tokens, shape (tokens, dimension)."""
        row = int(np.searchsorted(self.ids, text_id))
        if row == len(self.ids) or self.ids[row] != text_id:
            raise EngineError(f"text {text_id} has no token vectors. Build them anew")
        return self.vectors[self.offsets[row] : self.offsets[row + 1]]


def write(path: Path, embedder_id: str, dimension: int, contents: Contents) -> None:
    """Write a file; an older one is replaced when the new one is whole.

    The slab is mapped while it is filled, so no more of it need be in memory than the system
    keeps there.
    """
    ids, lengths, fill = contents
    if ids.shape != lengths.shape or (lengths < 0).any() or (ids[1:] <= ids[:-1]).any():
        raise ValueError("ids must ascend and each have the number of its tokens")
    embedder = embedder_id.encode()
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
    layout = Layout(len(embedder), dimension, len(ids), int(offsets[-1]))
    with replacing(path) as beside:
        with beside.open("wb") as file:
            file.seek(TOKEN_FORMAT.size)
            file.write(embedder.ljust(layout.ids - TOKEN_FORMAT.size, b"\0"))
            file.write(ids.astype("<i8").tobytes() + offsets.astype("<i8").tobytes())
            file.truncate(layout.size)
        if layout.tokens:
            slab = np.memmap(
                beside,
                dtype="<f2",
                mode="r+",
                offset=layout.slab,
                shape=(layout.tokens, dimension),
            )
            fill(slab, offsets)
            slab.flush()
        with beside.open("r+b") as file:
            file.seek(TOKEN_FORMAT.size)
            digest = crc(file)
            file.seek(0)
            counts = (len(embedder), dimension, layout.texts, layout.tokens)
            file.write(TOKEN_FORMAT.head(*counts, digest))


def _read(file: BinaryIO, embedder_id: str, dimension: int) -> TokenStore:
    """Check everything that a file says; any doubt is a ValueError."""
    embedder_bytes, columns, texts, tokens, digest = TOKEN_FORMAT.counts(file)
    layout = Layout(embedder_bytes, columns, texts, tokens)
    TOKEN_FORMAT.check(
        file, Said(columns, embedder_bytes, layout.size, digest), embedder_id, dimension
    )
    file.seek(layout.ids)
    table = np.frombuffer(file.read((2 * texts + 1) * 8), dtype="<i8").astype(np.int64)
    ids, offsets = table[:texts], table[texts:]
    falls = (ids[1:] <= ids[:-1]).any() or (offsets[1:] < offsets[:-1]).any()
    if falls or offsets[0] != 0 or offsets[-1] != tokens:
        raise ValueError("its offsets table is not in order")
    return TokenStore(ids, offsets, vectors_at(file, layout.slab, (tokens, columns)))


BITS = 16
"""Of a half, in which as many signs are packed."""


def identity(embedder: str) -> str:
    """Name what makes such vectors, apart from the embedder alone."""
    return f"{embedder}, signs"


def packed_dimension(dimension: int) -> int:
    """Count the halves that hold the signs of a vector."""
    if dimension % BITS:
        raise ValueError(f"{dimension} components do not fill halves of {BITS} bits")
    return dimension // BITS


def packed(vectors: HalfVectors) -> HalfVectors:
    """Pack signs, shape (tokens, dimension), into halves, shape (tokens, dimension / 16)."""
    bits = np.packbits(np.asarray(vectors) >= 0, axis=1)
    half: HalfVectors = bits.view("<f2").reshape(len(vectors), packed_dimension(vectors.shape[1]))
    return half


@dataclass(frozen=True, slots=True, eq=False)
class SignStore:
    """An open file of packed signs."""

    store: TokenStore

    @classmethod
    def open(cls, path: Path, embedder: str, dimension: int) -> SignStore:
        """Read and check the whole file once."""
        return cls(TokenStore.open(path, identity(embedder), packed_dimension(dimension)))

    def __len__(self) -> int:
        return len(self.store)

    def of(self, text_id: int) -> HalfVectors:
        """Vectors of one text's tokens, shape (tokens, dimension), each of length 1."""
        halves = np.ascontiguousarray(self.store.of(text_id))
        bits = np.unpackbits(halves.view(np.uint8), axis=1)
        length = np.float16(1 / np.sqrt(halves.shape[1] * BITS))
        return np.where(bits, length, -length)


CACHE_FOLDER = "tokens"
"""Folder of the cache."""


class Kept(NamedTuple):
    """One part file."""

    keys: list[bytes]
    ends: Ids
    """Where the vectors of each text end; those of the next one begin there."""
    vectors: HalfVectors


def write_tokens(
    path: Path,
    ids: Sequence[int],
    texts: Sequence[str],
    embedder: TokenEmbedder,
    cache: Path,
    *,
    one_bit: bool = False,
) -> None:
    """Write the token vectors of ``texts`` into ``path``; ``ids`` ascend.

    With ``one_bit`` the file has only the sign of each component (``engines.rerank.tokens``).

    Only texts never seen before are read by the model, and the one pass keeps both their tokens and
    their pooled vectors, so that ``engines.vector.bulk.embed_all`` finds those made. One part
    file at a time is in memory.
    """
    folder = bulk.folder_of(cache, CACHE_FOLDER, embedder)
    rows: dict[bytes, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(bulk.key_of(text), []).append(row)
    held = {key for kept in _parts(folder, rows) for key in kept.keys}
    missing = {key: texts[at[0]] for key, at in rows.items() if key not in held}
    _embed(missing, embedder, cache)
    lengths = np.zeros(len(texts), dtype=np.int64)
    for kept in _parts(folder, rows):
        for key, length in zip(kept.keys, np.diff(kept.ends, prepend=0), strict=True):
            lengths[rows.get(key, [])] = length

    def fill(slab: HalfVectors, offsets: Ids) -> None:
        for kept in _parts(folder, rows):
            for key, vectors in zip(kept.keys, np.split(kept.vectors, kept.ends[:-1]), strict=True):
                for row in rows.get(key, []):
                    slab[offsets[row] : offsets[row + 1]] = packed(vectors) if one_bit else vectors

    numbers = np.array(ids, dtype=np.int64)
    contents = Contents(numbers, lengths, fill)
    name, dimension = embedder.identity, embedder.dimension
    if one_bit:
        name, dimension = identity(name), packed_dimension(dimension)
    write(path, name, dimension, contents)


def _embed(missing: dict[bytes, str], embedder: TokenEmbedder, cache: Path) -> None:
    """Read texts, and keep tokens and pooled vectors of each part as soon as it is done."""
    write = _Write(bulk.folder_of(cache, bulk.VECTORS, embedder).absolute())
    bulk.make_parts(missing, embedder.read, write, bulk.folder_of(cache, CACHE_FOLDER, embedder))


@dataclass(frozen=True, slots=True)
class _Write:
    pooled: Path
    """Folder of the pooled vectors."""

    def __call__(self, part: bulk.Part, readings: Sequence[Reading], path: Path) -> None:
        tokens = [text.astype(np.float16) for reading in readings for text in reading.tokens]
        pooled = np.concatenate([reading.pooled for reading in readings]).astype(np.float16)
        lengths = np.array([len(text) for text in tokens], dtype=np.int64)
        with replacing(bulk.named(self.pooled, part)) as beside:
            bulk.save(beside, part, pooled)
        bulk.save(path, part, np.concatenate(tokens), lengths=lengths)


def _parts(folder: Path, wanted: Collection[bytes]) -> Iterator[Kept]:
    for keys, (lengths, vectors) in bulk.parts_of(folder, "lengths", "vectors", wanted=wanted):
        ends = np.cumsum(lengths)
        if len(ends) == len(keys) and ends[-1] == len(vectors):
            yield Kept(keys, ends, vectors)


FUSED_WEIGHT = 0.4
"""As the specification of the documents stack blends; what it gains is in ``docs/field.md``."""

Half = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """Blends a window's fused scores with its MaxSim."""

    embedder: TokenEmbedder
    tokens: Tokens
    fused_weight: float
    """Share of the min-maxed fused score in the blend; MaxSim has the rest."""

    @property
    def identity(self) -> str:
        return self.identity_of(self.embedder, self.fused_weight)

    @staticmethod
    def identity_of(embedder: TokenEmbedder, fused_weight: float) -> str:
        """Name what reranks before there are token vectors."""
        return f"maxsim 1, fused {fused_weight}, {embedder.identity}"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Score fused_weight * min-maxed fused score + (1 - fused_weight) * min-maxed MaxSim.

        Both are spread over the window, so its best in both has 1 and its worst in both 0;
        ``raw_score`` is MaxSim, a mean of cosines.
        """
        query = self.embedder.read([text]).tokens[0].astype(np.float16)
        similar = np.array([maxsim(query, self.tokens.of(one)) for one in ids])
        ours = 1.0 - self.fused_weight
        blend = self.fused_weight * spread(np.array(fused)) + ours * spread(similar)
        held = np.clip(np.round(blend, COSINE_DIGITS), 0.0, 1.0)
        pairs = zip(held.tolist(), similar.tolist(), strict=True)
        return [Reranked(score, raw) for score, raw in pairs]


def maxsim(query: Half, text: Half) -> float:
    """Mean over the query's tokens of the highest cosine with a token of the text.

    Both are rows of unit vectors, shapes (tokens, dimension). The paper adds up instead; over one
    query the order is the same, and a mean stays within [-1, 1]. Rounded to ``COSINE_DIGITS``,
    below which processors differ. A text without a token is like nothing: 0.
    """
    if not len(query) or not len(text):
        return 0.0
    cosines = np.empty((len(query), len(text)))
    numkong.cdist(query, np.asarray(text), "dot", out=cosines)
    return round(float(cosines.max(axis=1).mean()), COSINE_DIGITS)


def spread(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Min-max over a window: (score - lowest) / (highest - lowest); equal ones are all 1."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    if low == high:
        return np.ones(len(scores))
    spread_out: NDArray[np.float64] = (scores - low) / (high - low)
    return spread_out
