"""Half-precision vectors of documents in an AMVI file, searched exactly."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.contract.errors import IndexUnavailable
from engines.vector import amvi
from engines.vector.amvi import AmviIndex
from engines.vector.scan import dots_of, nearest
from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file

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
        """Find the ``k`` documents of highest positive cosine; shape of ``query``: (dimension,).

        Ordered by (-cosine, document id). A document at a right angle or beyond has nothing in
        common with the query and is not shown.
        """
        rows, cosines = nearest(self.vectors, query, k)
        best = zip(rows.tolist(), cosines.tolist(), strict=True)
        return [(self.doc_ids[row], cosine) for row, cosine in best if cosine > 0]

    def cosines(self, query: NDArray[np.float32], doc_ids: Sequence[str]) -> dict[str, float]:
        """Give the cosines of known documents with the query, as ``nearest`` does."""
        rows = np.array([bisect_left(self.doc_ids, doc_id) for doc_id in doc_ids], dtype=np.int64)
        return dict(zip(doc_ids, dots_of(self.vectors, query, rows).tolist(), strict=True))


def write(folder: Path, doc_ids: Sequence[str], vectors: NDArray[np.float16]) -> None:
    """Write vectors of documents that come in byte order of their ids.

    Raises:
        ValueError: there is not one finite half-precision vector for each document.
    """
    amvi.write(folder / VECTORS, EMBEDDER, np.arange(len(doc_ids)), vectors)
    write_text(folder / IDS, json.dumps(list(doc_ids)))


def open_store(folder: Path, dimension: int) -> VectorStore:
    """Check both files and map the vectors.

    Raises:
        IndexNotReady: a file is missing or not what ``write`` writes.
    """
    try:
        doc_ids = tuple(json_file(folder / IDS, most=MAX_INDEX_BYTES))
        index = AmviIndex.open(folder / VECTORS, EMBEDDER, dimension)
    except (OSError, ValueError, TypeError, IndexUnavailable) as exc:
        raise IndexNotReady(f"{folder}: {exc}. Build it again: harness index") from exc
    if len(index.message_ids) != len(doc_ids):
        raise IndexNotReady(
            f"{folder / VECTORS}: holds {len(index.message_ids)} vectors for"
            f" {len(doc_ids)} documents. Build it again: harness index"
        )
    return VectorStore(doc_ids, index.vectors)
