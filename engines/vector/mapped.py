"""What files of vectors have in common: a header, a digest of the rest, a slab that is mapped.

A file begins with four letters and a version u16, its header ends with the CRC-32 of everything
that follows it. The embedder id comes next, and the vectors, as little-endian halves (F16), last.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np

from engines.vector.scan import Half

HALF_BYTES = 2
CHUNK_BYTES = 1 << 20


class Said(NamedTuple):
    """What the header of every format says, in its own order."""

    dimension: int
    embedder_bytes: int
    size: int
    """Of the whole file, in bytes, as its counts have it."""
    crc: int


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file."""

    name: str
    magic: bytes
    version: int
    header: struct.Struct
    """Magic, version, the format's own counts, CRC-32."""

    @property
    def size(self) -> int:
        """Of the header, in bytes."""
        return self.header.size

    def head(self, *counts: int) -> bytes:
        """Give the header of a file: the format's own counts and the CRC-32."""
        return self.header.pack(self.magic, self.version, *counts)

    def counts(self, file: BinaryIO) -> tuple[int, ...]:
        """Read the header: the format's own counts and the CRC-32.

        Raises:
            ValueError: the file is of another format or version.
        """
        header = file.read(self.size)
        if len(header) < self.size or not header.startswith(self.magic):
            raise ValueError(f"invalid {self.name}")
        _, version, *counts = self.header.unpack(header)
        if version != self.version:
            raise ValueError(
                f"its format is of version {version}, this program reads {self.version}"
            )
        return tuple(counts)

    def check(self, file: BinaryIO, said: Said, embedder_id: str, dimension: int) -> None:
        """Compare a file with its header, and the header with what is requested.

        Raises:
            ValueError: it is damaged, or of another embedder or dimension.
        """
        if said.dimension != dimension:
            raise ValueError(
                f"its vectors have the dimension {said.dimension}, the embedder's {dimension}"
            )
        if (size := os.fstat(file.fileno()).st_size) != said.size:
            raise ValueError(f"it has {size} bytes, its header says {said.size}")
        file.seek(self.size)
        if (found := crc(file)) != said.crc:
            raise ValueError(f"its CRC-32 is {found:08x}, its header says {said.crc:08x}")
        file.seek(self.size)
        if (made_by := file.read(said.embedder_bytes).decode()) != embedder_id:
            raise ValueError(f"its embedder is {made_by!r}, asked is {embedder_id!r}")


def crc(file: BinaryIO) -> int:
    """Digest from here to the end, without holding it."""
    found = 0
    while chunk := file.read(CHUNK_BYTES):
        found = zlib.crc32(chunk, found)
    return found


def vectors_at(file: BinaryIO, offset: int, shape: tuple[int, int]) -> Half:
    """Map the vectors that begin at ``offset``; without vectors, nothing is mapped."""
    if not shape[0]:
        return np.zeros(shape, dtype=np.float16)
    return np.memmap(file, dtype="<f2", mode="r", offset=offset, shape=shape)


def aligned(at: int, to: int) -> int:
    """Give the first multiple of ``to`` from ``at`` on."""
    return -(-at // to) * to
