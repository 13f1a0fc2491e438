"""Vectors that a record brings along: used where a fresh one agrees, so that processors agree.

Two processors add up in other orders, so the vector of a text differs in its seventh digit.
Rounding to half precision makes one unit of that in one component of a few hundred. Where the
record has the text and the fresh vector is as near as that, the recorded one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.vector.bulk import RECORDED, VECTORS, Half, embed_all, folder_of, key_of, read_recorded
from engines.vector.embedder import Embedder
from harness.core.engine import Agreement
from harness.core.files import replacing
from harness.core.formats import MAX_INDEX_BYTES
from harness.core.reading import whole

NEAR = 2.0**-11
"""One unit of half precision below 1, the most that rounding makes of a difference far below it."""
SAMPLE = 32
"""Texts that are embedded anew before the vectors of a record are taken."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An embedder that gives what is recorded of a text, if its own vector says the same."""

    embedder: Embedder
    known: Mapping[bytes, Half]

    @property
    def identity(self) -> str:
        return self.embedder.identity

    @property
    def dimension(self) -> int:
        return self.embedder.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        fresh = self.embedder.embed(texts)
        for row, text in enumerate(texts):
            told = self.known.get(key_of(text))
            if told is not None and apart(fresh[row], told) <= NEAR:
                fresh[row] = told
        return fresh


def apart(fresh: NDArray[np.float32], told: Half) -> float:
    """Give the largest difference of two vectors in one component."""
    return float(np.abs(fresh - told.astype(np.float32)).max())


def recorded(embedder: Embedder, cache: Path) -> Embedder:
    """Give the embedder with what the cache was given of a record; itself where that is nothing."""
    known = read_recorded(folder_of(cache, VECTORS, embedder) / RECORDED)
    return Recorded(embedder, known) if known else embedder


def write(folder: Path, embedder: Embedder, cache: Path, texts: Sequence[str]) -> Path:
    """Write the vectors of ``texts`` into a file of ``folder`` that the embedder names."""
    by_key = {key_of(text): text for text in texts}
    keys = sorted(by_key)
    vectors = embed_all([by_key[key] for key in keys], embedder, cache)
    row = np.dtype([("key", "u1", 32), ("vector", "<f2", embedder.dimension)])
    rows = np.zeros(len(keys), dtype=row)
    rows["key"] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 32)
    rows["vector"] = vectors
    path = _file(folder, embedder, cache)
    with replacing(path) as beside, beside.open("wb") as file:
        np.save(file, rows, allow_pickle=False)
    return path


def take(folder: Path, embedder: Embedder, cache: Path, texts: Sequence[str]) -> Agreement | None:
    """Put the record's vectors into the cache, if fresh ones of a sample of ``texts`` agree.

    None where the record has no file of this embedder, or not all of the sample.
    """
    path = _file(folder, embedder, cache)
    known = read_recorded(path)
    sample = sorted(set(texts), key=key_of)[:SAMPLE]
    if not sample or any(key_of(text) not in known for text in sample):
        return None
    fresh = [embedder.embed([text])[0] for text in sample]
    furthest = max(
        apart(vector, known[key_of(text)]) for vector, text in zip(fresh, sample, strict=True)
    )
    used = furthest <= NEAR
    if used:
        to = folder_of(cache, VECTORS, embedder) / RECORDED
        with replacing(to) as beside:
            beside.write_bytes(whole(path, most=MAX_INDEX_BYTES))
    return Agreement(furthest, used)


def _file(folder: Path, embedder: Embedder, cache: Path) -> Path:
    return folder / f"{folder_of(cache, VECTORS, embedder).name}.npy"
