"""Token vectors of texts: stored, cached, and compared by late interaction."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

import numkong
import numpy as np
from numpy.typing import NDArray

from harness.core.files import replacing
from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.rerank.cross_encoder import Reranked
from harness_engines.vector import bulk
from harness_engines.vector.amvi import HALF_BYTES, Format, Shape, crc
from harness_engines.vector.embedder import ModelPass, TokenEmbedder
from harness_engines.vector.scan import COSINE_DIGITS
from harness_engines.vector.scan import Half as HalfVectors

TOKEN_FORMAT = Format(
    "file of token vectors",
    b"TOKS",
    1,
    struct.Struct("<4sHHIQQ4xI4x"),
    lambda name, dimension, texts, tokens: Shape(dimension, name, (2 * texts + 1) * 8, tokens),
)

Ids = NDArray[np.int64]


Fill = Callable[[HalfVectors, Ids], None]
"""Writes every vector into a slab of shape (tokens, dimension), text n from offset n on."""


class Tokens(Protocol):
    """Token vectors of texts."""

    def of(self, text_id: int) -> HalfVectors:
        """Vectors of one text's tokens, shape (tokens, dimension)."""
        ...


BITS = 16
"""Of a half, in which as many signs are packed."""


def as_signs(embedder: str, dimension: int) -> tuple[str, int]:
    """Name what makes the signs of vectors, and count the halves that hold those of one."""
    if dimension % BITS:
        raise ValueError(f"{dimension} components do not fill halves of {BITS} bits")
    return f"{embedder}, signs", dimension // BITS


def packed(vectors: HalfVectors) -> HalfVectors:
    """Pack signs, shape (tokens, dimension), into halves, shape (tokens, dimension / 16)."""
    bits = np.packbits(np.asarray(vectors) >= 0, axis=1)
    return bits.view("<f2").reshape(len(vectors), vectors.shape[1] // BITS)


def unpacked(halves: HalfVectors) -> HalfVectors:
    """Make vectors of length 1 of packed signs."""
    bits = np.unpackbits(np.ascontiguousarray(halves).view(np.uint8), axis=1)
    length = np.float16(1 / np.sqrt(bits.shape[1]))
    return np.where(bits, length, -length)


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """An open file; its vectors stay mapped, also when the file is replaced."""

    ids: Ids
    """Shape (texts,), strictly ascending."""
    offsets: Ids
    """Shape (texts + 1,)."""
    vectors: HalfVectors
    """Shape (tokens, dimension), mapped from the file."""
    one_bit: bool = False
    """Whether the vectors are packed signs."""

    @classmethod
    def open(
        cls, path: Path, embedder_id: str, dimension: int, *, one_bit: bool = False
    ) -> TokenStore:
        """Read and check the whole file once, then map its vectors."""
        if one_bit:
            embedder_id, dimension = as_signs(embedder_id, dimension)
        try:
            with path.open("rb") as file:
                return replace(_read(file, embedder_id, dimension), one_bit=one_bit)
        except (OSError, ValueError) as exc:
            raise IndexUnavailable(f"{path}: {exc}. Build the token vectors anew") from exc

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, text_id: int) -> HalfVectors:
        """Vectors of one text's tokens, shape (tokens, dimension)."""
        row = int(np.searchsorted(self.ids, text_id))
        if row == len(self.ids) or self.ids[row] != text_id:
            raise EngineError(f"text {text_id} has no token vectors. Build them anew")
        found = self.vectors[self.offsets[row] : self.offsets[row + 1]]
        return unpacked(found) if self.one_bit else found


def write(
    path: Path, embedder_id: str, dimension: int, ids: Ids, lengths: Ids, *, fill: Fill
) -> None:
    """Write vectors of texts of ascending ``ids`` and so many tokens; an older file is replaced."""
    embedder = embedder_id.encode()
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
    shape = (int(offsets[-1]), dimension)
    table = ids.astype("<i8").tobytes() + offsets.astype("<i8").tobytes()
    with replacing(path) as beside:
        with beside.open("wb") as file:
            file.seek(TOKEN_FORMAT.header.size)
            file.write(TOKEN_FORMAT.front(embedder, table))
            begin = file.tell()
            file.truncate(begin + shape[0] * dimension * HALF_BYTES)
        if shape[0]:
            slab = np.memmap(beside, dtype="<f2", mode="r+", offset=begin, shape=shape)
            fill(slab, offsets)
            slab.flush()
        with beside.open("r+b") as file:
            file.seek(TOKEN_FORMAT.header.size)
            digest = crc(file)
            file.seek(0)
            file.write(TOKEN_FORMAT.head(len(embedder), dimension, len(ids), shape[0], digest))


def _read(file: BinaryIO, embedder_id: str, dimension: int) -> TokenStore:
    """Check everything that a file says; any doubt is a ValueError."""
    found, vectors = TOKEN_FORMAT.read(file, embedder_id, dimension)
    table = np.frombuffer(found, dtype="<i8").astype(np.int64)
    ids, offsets = table[: len(table) // 2], table[len(table) // 2 :]
    falls = (ids[1:] <= ids[:-1]).any() or (offsets[1:] < offsets[:-1]).any()
    if falls or offsets[0] != 0 or offsets[-1] != len(vectors):
        raise ValueError("its offsets table is not in order")
    return TokenStore(ids, offsets, vectors)


CACHE_FOLDER = "tokens"
"""Folder of the cache."""


def write_tokens(
    path: Path,
    ids: Sequence[int],
    texts: Sequence[str],
    embedder: TokenEmbedder,
    cache: Path,
    *,
    one_bit: bool = False,
) -> None:
    """Write the token vectors of ``texts`` into ``path``, or their signs; ``ids`` ascend."""
    folder = bulk.folder_of(cache, CACHE_FOLDER, embedder)
    rows: dict[bytes, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(bulk.key_of(text), []).append(row)
    stored = partial(bulk.rows_of, folder, "vectors", wanted=rows)
    held = {key for key, _ in stored()}
    missing = {key: texts[at[0]] for key, at in rows.items() if key not in held}
    pooled = bulk.folder_of(cache, bulk.VECTORS, embedder).absolute()
    bulk.make_parts(missing, embedder.read, partial(_write_both, pooled), folder)
    lengths = np.zeros(len(texts), dtype=np.int64)
    for key, (vectors,) in stored():
        lengths[rows.get(key, [])] = len(vectors)

    def fill(slab: HalfVectors, offsets: Ids) -> None:
        for key, (vectors,) in stored():
            for row in rows.get(key, []):
                slab[offsets[row] : offsets[row + 1]] = packed(vectors) if one_bit else vectors

    numbers = np.array(ids, dtype=np.int64)
    name, dimension = embedder.identity, embedder.dimension
    if one_bit:
        name, dimension = as_signs(name, dimension)
    write(path, name, dimension, numbers, lengths, fill=fill)


def _write_both(folder: Path, part: bulk.Part, readings: Sequence[ModelPass], path: Path) -> None:
    """Keep the tokens of a part in ``path`` and its pooled vectors in ``folder``."""
    tokens = [text.astype(np.float16) for reading in readings for text in reading.tokens]
    pooled = np.concatenate([reading.pooled for reading in readings]).astype(np.float16)
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    with replacing(bulk.named(folder, part)) as beside:
        bulk.save(beside, part, pooled)
    bulk.save(path, part, np.concatenate(tokens), lengths=lengths)


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
