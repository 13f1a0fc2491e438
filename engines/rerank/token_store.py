"""The token vectors of all texts in one mapped file.

Little-endian:

* 40 bytes: ``TOKS``, version u16, length of the embedder id u16, dimension u32, texts u64,
  tokens u64, 4 zeros, the CRC-32 of everything that follows, 4 zeros;
* the embedder id in UTF-8, then zeros up to a multiple of 8;
* ids i64, ascending; then the offsets table, texts + 1 of i64. The vectors of text n are those
  from offset n up to offset n + 1; zeros up to a multiple of 32;
* tokens x dimension halves (F16).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engines.contract.errors import EngineError, IndexUnavailable
from engines.vector.mapped import HALF_BYTES, Format, Said, aligned, crc, vectors_at
from engines.vector.scan import Half
from harness.core.files import replacing

TOKENS = Format("file of token vectors", b"TOKS", 1, struct.Struct("<4sHHIQQ4xI4x"))
TABLE_ALIGNED, SLAB_ALIGNED = 8, 32

Ids = NDArray[np.int64]


class Contents(NamedTuple):
    """What is to be written."""

    ids: Ids
    """Shape (texts,), ascending."""
    lengths: Ids
    """Tokens of each text."""
    fill: Callable[[Half, Ids], None]
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
        return aligned(TOKENS.size + self.embedder_bytes, TABLE_ALIGNED)

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

    def of(self, text_id: int) -> Half:
        """Vectors of one text's tokens, shape (tokens, dimension)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """An open file; its vectors stay mapped, also when the file is replaced."""

    ids: Ids
    """Shape (texts,), strictly ascending."""
    offsets: Ids
    """Shape (texts + 1,)."""
    vectors: Half
    """Shape (tokens, dimension), mapped from the file."""

    @classmethod
    def open(cls, path: Path, embedder_id: str, dimension: int) -> TokenStore:
        """Read and check the whole file once, then map its vectors.

        Raises:
            IndexUnavailable: it is missing, damaged, or of another embedder or dimension.
        """
        try:
            with path.open("rb") as file:
                return _read(file, embedder_id, dimension)
        except (OSError, ValueError) as exc:
            raise IndexUnavailable(f"{path}: {exc}. Build the token vectors anew") from exc

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, text_id: int) -> Half:
        """Vectors of one text's tokens, shape (tokens, dimension).

        Raises:
            EngineError: the file has no such text.
        """
        row = int(np.searchsorted(self.ids, text_id))
        if row == len(self.ids) or self.ids[row] != text_id:
            raise EngineError(f"text {text_id} has no token vectors. Build them anew")
        return self.vectors[self.offsets[row] : self.offsets[row + 1]]


def write(path: Path, embedder_id: str, dimension: int, contents: Contents) -> None:
    """Write a file; an older one is replaced when the new one is whole.

    The slab is mapped while it is filled, so no more of it need be in memory than the system
    keeps there.

    Raises:
        ValueError: ids do not ascend, or lengths do not fit them.
    """
    ids, lengths, fill = contents
    if ids.shape != lengths.shape or (lengths < 0).any() or (ids[1:] <= ids[:-1]).any():
        raise ValueError("ids must ascend and each have the number of its tokens")
    embedder = embedder_id.encode()
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
    layout = Layout(len(embedder), dimension, len(ids), int(offsets[-1]))
    with replacing(path) as beside:
        with beside.open("wb") as file:
            file.seek(TOKENS.size)
            file.write(embedder.ljust(layout.ids - TOKENS.size, b"\0"))
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
            file.seek(TOKENS.size)
            digest = crc(file)
            file.seek(0)
            counts = (len(embedder), dimension, layout.texts, layout.tokens)
            file.write(TOKENS.head(*counts, digest))


def _read(file: BinaryIO, embedder_id: str, dimension: int) -> TokenStore:
    """Check everything that a file says; any doubt is a ValueError."""
    embedder_bytes, columns, texts, tokens, digest = TOKENS.counts(file)
    layout = Layout(embedder_bytes, columns, texts, tokens)
    TOKENS.check(file, Said(columns, embedder_bytes, layout.size, digest), embedder_id, dimension)
    file.seek(layout.ids)
    table = np.frombuffer(file.read((2 * texts + 1) * 8), dtype="<i8").astype(np.int64)
    ids, offsets = table[:texts], table[texts:]
    falls = (ids[1:] <= ids[:-1]).any() or (offsets[1:] < offsets[:-1]).any()
    if falls or offsets[0] != 0 or offsets[-1] != tokens:
        raise ValueError("its offsets table is not in order")
    return TokenStore(ids, offsets, vectors_at(file, layout.slab, (tokens, columns)))
