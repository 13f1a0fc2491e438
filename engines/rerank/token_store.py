"""The token vectors of all texts in one mapped file.

Little-endian:

* 40 bytes: ``TOKS``, version u16, length of the embedder id u16, dimension u32, texts u64,
  tokens u64, 4 zeros, the CRC-32 of everything that follows, 4 zeros;
* the embedder id in UTF-8, then zeros up to a multiple of 8;
* ids i64, ascending; then the offsets table, texts + 1 of i64: the vectors of text n are those
  from offset n up to offset n + 1; zeros up to a multiple of 32;
* tokens x dimension halves (F16).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.contract.mail.errors import EngineError, IndexNotReady
from harness.core.files import replacing

MAGIC, VERSION = b"TOKS", 1
HEADER = struct.Struct("<4sHHIQQ4xI4x")
TABLE_ALIGNED, SLAB_ALIGNED = 8, 32
CHUNK_BYTES = 1 << 20

Half = NDArray[np.float16]
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
        return _aligned(HEADER.size + self.embedder_bytes, TABLE_ALIGNED)

    @property
    def offsets(self) -> int:
        """After the ids."""
        return self.ids + self.texts * 8

    @property
    def slab(self) -> int:
        """After the offsets table."""
        return _aligned(self.offsets + (self.texts + 1) * 8, SLAB_ALIGNED)

    @property
    def size(self) -> int:
        """Of the whole file."""
        return self.slab + self.tokens * self.dimension * 2


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
            IndexNotReady: it is missing, damaged, or of another embedder or dimension.
        """
        try:
            with path.open("rb") as file:
                return _read(file, embedder_id, dimension)
        except (OSError, ValueError) as exc:
            raise IndexNotReady(f"{path}: {exc}. Build the token vectors anew") from exc

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
            file.seek(HEADER.size)
            file.write(embedder.ljust(layout.ids - HEADER.size, b"\0"))
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
            file.seek(HEADER.size)
            crc = _crc(file)
            file.seek(0)
            counts = (len(embedder), dimension, layout.texts, layout.tokens)
            file.write(HEADER.pack(MAGIC, VERSION, *counts, crc))


def _read(file: BinaryIO, embedder_id: str, dimension: int) -> TokenStore:
    """Check everything that a file says; any doubt is a ValueError."""
    header = file.read(HEADER.size)
    size = os.fstat(file.fileno()).st_size
    if len(header) < HEADER.size or header[:4] != MAGIC:
        raise ValueError("this is no file of token vectors")
    _, version, embedder_bytes, columns, texts, tokens, crc = HEADER.unpack(header)
    layout = Layout(embedder_bytes, columns, texts, tokens)
    if version != VERSION:
        raise ValueError(f"its format is of version {version}, this program reads {VERSION}")
    if columns != dimension:
        raise ValueError(f"its vectors have the dimension {columns}, the embedder's {dimension}")
    if size != layout.size:
        raise ValueError(f"it has {size} bytes, its header says {layout.size}")
    if (found := _crc(file)) != crc:
        raise ValueError(f"its CRC-32 is {found:08x}, its header says {crc:08x}")
    file.seek(HEADER.size)
    if (made_by := file.read(embedder_bytes).decode()) != embedder_id:
        raise ValueError(f"its embedder is {made_by!r}, asked is {embedder_id!r}")
    file.seek(layout.ids)
    table = np.frombuffer(file.read((2 * texts + 1) * 8), dtype="<i8").astype(np.int64)
    ids, offsets = table[:texts], table[texts:]
    falls = (ids[1:] <= ids[:-1]).any() or (offsets[1:] < offsets[:-1]).any()
    if falls or offsets[0] != 0 or offsets[-1] != tokens:
        raise ValueError("its offsets table is not in order")
    return TokenStore(ids, offsets, _slab(file, layout))


def _crc(file: BinaryIO) -> int:
    """Digest from here to the end, without holding it."""
    crc = 0
    while chunk := file.read(CHUNK_BYTES):
        crc = zlib.crc32(chunk, crc)
    return crc


def _slab(file: BinaryIO, layout: Layout) -> Half:
    shape = (layout.tokens, layout.dimension)
    if not layout.tokens:
        return np.zeros(shape, dtype=np.float16)
    return np.memmap(file, dtype="<f2", mode="r", offset=layout.slab, shape=shape)


def _aligned(at: int, to: int) -> int:
    return -(-at // to) * to
