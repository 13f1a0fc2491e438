"""Half-precision vectors in a memory-mapped file, searched exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numkong
import numpy as np
from numpy.typing import NDArray

from harness.core.errors import IndexNotReady
from harness.core.files import replacing, write_text

VECTORS = "vectors.npy"
IDS = "ids.json"
COSINE_DIGITS = 6
"""Half precision holds no more, and processors differ below that; so equal here is a tie."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorStore:
    """Unit vectors of documents in byte order of their ids."""

    doc_ids: tuple[str, ...]
    vectors: NDArray[np.float16]
    """Shape (documents, dimension), mapped from the file."""

    def nearest(self, query: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """Find the ``k`` documents of highest positive cosine; shape of ``query``: (dimension,).

        Ordered by (-cosine, document id). A document at a right angle or beyond has nothing in
        common with the query and is not shown.
        """
        if not self.doc_ids:
            return []
        asked = query.astype(np.float16)[None, :]
        cosine = np.asarray(numkong.cdist(asked, self.vectors, "dot"), dtype=np.float64)[0]
        cosine = cosine.round(COSINE_DIGITS)
        if len(cosine) > k:
            edge = np.partition(cosine, len(cosine) - k)[len(cosine) - k]
            rows = np.flatnonzero(cosine >= edge)
        else:
            rows = np.arange(len(cosine))
        rows = rows[np.lexsort((rows, -cosine[rows]))][:k]
        return [(self.doc_ids[row], float(cosine[row])) for row in rows if cosine[row] > 0]


def write(folder: Path, doc_ids: Sequence[str], vectors: NDArray[np.float16]) -> None:
    """Write vectors of documents that come in byte order of their ids."""
    with replacing(folder / VECTORS) as beside, beside.open("wb") as file:
        np.save(file, np.ascontiguousarray(vectors))
    write_text(folder / IDS, json.dumps(list(doc_ids)))


def open_store(folder: Path, dimension: int) -> VectorStore:
    """Map the file and check its shape.

    Raises:
        IndexNotReady: a file is missing or not what ``write`` writes.
    """
    try:
        doc_ids = tuple(json.loads((folder / IDS).read_text(encoding="utf-8")))
        vectors = np.load(folder / VECTORS, mmap_mode="r")
    except (OSError, EOFError, ValueError, TypeError) as exc:
        raise IndexNotReady(f"{folder}: {exc}. Run: harness index --force") from exc
    if vectors.dtype != np.float16 or vectors.shape != (len(doc_ids), dimension):
        raise IndexNotReady(
            f"{folder / VECTORS}: holds {vectors.dtype} of shape {vectors.shape} for"
            f" {len(doc_ids)} documents. Run: harness index --force"
        )
    return VectorStore(doc_ids, vectors)
