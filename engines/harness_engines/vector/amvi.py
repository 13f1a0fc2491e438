"""AMVI, the file of message vectors (ADR-003, D6; decision 14 of the agent mail stack)."""

import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import IndexNotReady
from harness.core.files import replacing
from harness_engines import contract
from harness_engines.vector.scan import Half, Rows, dots_of, nearest

HALF_BYTES = 2
CHUNK_BYTES = 1 << 20
TABLE_ALIGNED, SLAB_ALIGNED = 8, 32


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file: a header, the embedder's id, a table, and vectors in half precision."""

    name: str
    magic: bytes
    version: int
    header: struct.Struct
    """Magic, version, the format's own counts, CRC-32."""
    shape: Callable[..., tuple[int, int, int, int]]
    """Reads of the counts: the dimension, bytes of the embedder's id and of the table, vectors."""

    def head(self, *counts: int) -> bytes:
        """Return the header of a file: the format's own counts and the CRC-32."""
        return self.header.pack(self.magic, self.version, *counts)

    def front(self, embedder: bytes, table: bytes) -> bytes:
        """Return what stands between the header and the vectors."""
        table_at, vectors_at = self._places(len(embedder), len(table))
        whole = embedder.ljust(table_at - self.header.size, b"\0") + table
        return whole.ljust(vectors_at - self.header.size, b"\0")

    def _places(self, embedder_bytes: int, table_bytes: int) -> tuple[int, int]:
        """Return where the table and the vectors begin."""
        table_at = aligned(self.header.size + embedder_bytes, TABLE_ALIGNED)
        return table_at, aligned(table_at + table_bytes, SLAB_ALIGNED)

    def read(self, file: BinaryIO, embedder_id: str, dimension: int) -> tuple[bytes, Half]:
        """Check the whole of a file; return its table, and its vectors, mapped."""
        header = file.read(self.header.size)
        if len(header) < self.header.size or not header.startswith(self.magic):
            raise ValueError(f"invalid {self.name}")
        _, version, *counts, said_crc = self.header.unpack(header)
        if version != self.version:
            raise ValueError(
                f"its format is of version {version}, this program reads {self.version}"
            )
        columns, embedder_bytes, table_bytes, rows = self.shape(*counts)
        if columns != dimension:
            raise ValueError(
                f"its vectors have the dimension {columns}, the embedder's {dimension}"
            )
        table_at, slab = self._places(embedder_bytes, table_bytes)
        said = slab + rows * columns * HALF_BYTES
        if (size := os.fstat(file.fileno()).st_size) != said:
            raise ValueError(f"it has {size} bytes, its header says {said}")
        if (found := crc(file)) != said_crc:
            raise ValueError(f"its CRC-32 is {found:08x}, its header says {said_crc:08x}")
        file.seek(self.header.size)
        if (made_by := file.read(embedder_bytes).decode()) != embedder_id:
            raise ValueError(f"its embedder is {made_by!r}, asked is {embedder_id!r}")
        file.seek(table_at)
        table = file.read(table_bytes)
        if not rows:
            return table, np.zeros((0, columns), dtype=np.float16)
        shape = (rows, columns)
        return table, np.memmap(file, dtype="<f2", mode="r", offset=slab, shape=shape)


def crc(file: BinaryIO) -> int:
    """Digest from here to the end, without holding it."""
    found = 0
    while chunk := file.read(CHUNK_BYTES):
        found = zlib.crc32(chunk, found)
    return found


def aligned(at: int, to: int) -> int:
    """Return the first multiple of ``to`` from ``at`` on."""
    return -(-at // to) * to


RECORD = np.dtype([("message_id", "<i8"), ("vec_offset", "<u4")])
CHUNK_ROWS = 1 << 12
AMVI = Format(
    "AMVI file",
    b"AMVI",
    1,
    struct.Struct("<4sHIQHI"),
    lambda dimension, count, name: (dimension, name, count * RECORD.itemsize, count),
)

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AmviIndex:
    """An open file; its vectors stay mapped, also when the file is replaced."""

    embedder_id: str
    message_ids: Ids
    """Shape (messages,), strictly ascending."""
    vectors: Half
    """Shape (messages, dimension), mapped from the file."""
    header: str = ""
    """In hexadecimal digits: it has the CRC-32 of all that follows."""

    @classmethod
    def open(cls, path: Path, embedder_id: str, dimension: int) -> "AmviIndex":
        """Read and check the whole file once, then map its vectors."""
        try:
            with path.open("rb") as file:
                table, vectors = AMVI.read(file, embedder_id, dimension)
                file.seek(0)
                header = file.read(AMVI.header.size).hex()
        except (OSError, ValueError) as exc:
            raise contract.IndexUnavailable(f"{path}: {exc}. Build the vector index anew") from exc
        records = np.frombuffer(table, dtype=RECORD)
        message_ids = records["message_id"].astype(np.int64)
        ascend = (message_ids[1:] > message_ids[:-1]).all()
        if not ascend or (records["vec_offset"] != np.arange(len(records))).any():
            raise contract.IndexUnavailable(
                f"{path}: its records are not in order. Build the vector index anew"
            )
        return cls(embedder_id, message_ids, vectors, header)

    def search(
        self, query: NDArray[np.float32], k: int, allowed: Ids | None = None
    ) -> list[tuple[int, float]]:
        """Find the ``k`` messages of highest cosine: (message id, cosine), best first.

        ``query`` has the shape (dimension,) and, like the vectors, length 1. Equal cosines, after
        rounding to ``vector.scan.COSINE_DIGITS``, are ordered by id. Only messages of
        ``allowed``, ascending, compete; ids that are not in the index are ignored.
        """
        try:
            rows = None if allowed is None else self._rows(allowed)
            top = nearest(self.vectors, query, k, rows)
        except ValueError as exc:
            raise contract.EngineError(f"vectors of {self.embedder_id}: {exc}") from exc
        found = self.message_ids[top.positions].tolist()
        return list(zip(found, top.scores.tolist(), strict=True))

    def _rows(self, message_ids: Ids) -> Rows:
        rows = np.searchsorted(self.message_ids, message_ids)
        inside = rows < len(self.message_ids)
        inside[inside] = self.message_ids[rows[inside]] == message_ids[inside]
        return rows[inside]


def write_amvi(path: Path, embedder_id: str, message_ids: Ids, vectors: Half) -> None:
    """Write vectors of length 1 (or 0, which are like nothing), shape (messages, dimension)."""
    nothing = AmviIndex(embedder_id, np.zeros(0, dtype=np.int64), vectors[:0])
    updated(nothing, path, message_ids, vectors, ())


def updated(
    index: AmviIndex, path: Path, message_ids: Ids, vectors: Half, deleted: Iterable[int]
) -> None:
    """Write ``index`` with some messages put in or replaced and some left out, then rename."""
    out = np.fromiter(deleted, dtype=np.int64)
    kept = np.flatnonzero(~np.isin(index.message_ids, np.concatenate([message_ids, out])))
    both = np.concatenate([index.message_ids[kept], message_ids])
    order = np.argsort(both)

    def slab() -> Iterator[bytes]:
        for low in range(0, len(order), CHUNK_ROWS):
            rows = order[low : low + CHUNK_ROWS]
            old = rows < len(kept)
            found = np.empty((len(rows), index.vectors.shape[1]), dtype="<f2")
            found[old] = index.vectors[kept[rows[old]]]
            found[~old] = vectors[rows[~old] - len(kept)]
            if not np.isfinite(found).all():
                raise ValueError("a vector is not finite")
            yield found.tobytes()

    embedder, crc = index.embedder_id.encode(), 0
    records = np.empty(len(order), dtype=RECORD)
    records["message_id"], records["vec_offset"] = both[order], np.arange(len(order))
    with replacing(path) as beside, beside.open("wb") as file:
        file.seek(AMVI.header.size)
        for part in chain([AMVI.front(embedder, records.tobytes())], slab()):
            file.write(part)
            crc = zlib.crc32(part, crc)
        file.seek(0)
        file.write(AMVI.head(index.vectors.shape[1], len(order), len(embedder), crc))


VECTORS = "vectors.amvi"
"""A document's message id is its position."""
IDS = "ids.json"
EMBEDDER = "named in the manifest"
"""The index's manifest says who embedded, and is checked before the vectors are opened."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorStore:
    """Unit vectors of documents in byte order of their ids."""

    doc_ids: tuple[str, ...]
    vectors: NDArray[np.float16]
    """Shape (documents, dimension), mapped from the file."""

    def nearest(self, query: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """Find the ``k`` documents of highest positive cosine; shape of ``query``: (dimension,)."""
        rows, cosines = nearest(self.vectors, query, k)
        best = zip(rows.tolist(), cosines.tolist(), strict=True)
        return [(self.doc_ids[row], cosine) for row, cosine in best if cosine > 0]

    def cosines(self, query: NDArray[np.float32], doc_ids: Sequence[str]) -> dict[str, float]:
        """Return the cosines of known documents with the query, as ``nearest`` does."""
        rows = np.array([bisect_left(self.doc_ids, doc_id) for doc_id in doc_ids], dtype=np.int64)
        return dict(zip(doc_ids, dots_of(self.vectors, query, rows).tolist(), strict=True))


def write_store(folder: Path, doc_ids: Sequence[str], vectors: NDArray[np.float16]) -> None:
    """Write vectors of documents that come in byte order of their ids."""
    write_amvi(folder / VECTORS, EMBEDDER, np.arange(len(doc_ids)), vectors)
    contract.write_ids(folder / IDS, doc_ids)


def open_store(folder: Path, dimension: int) -> VectorStore:
    """Check both files and map the vectors."""
    doc_ids = contract.read_ids(folder / IDS)
    with contract.reading(folder, contract.IndexUnavailable):
        index = AmviIndex.open(folder / VECTORS, EMBEDDER, dimension)
    if len(index.message_ids) != len(doc_ids):
        raise IndexNotReady(
            f"{folder / VECTORS}: holds {len(index.message_ids)} vectors for"
            f" {len(doc_ids)} documents. Build it again: harness stage index"
        )
    return VectorStore(doc_ids, index.vectors)
