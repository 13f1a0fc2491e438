"""Token vectors of one bit a component, in the file that holds halves: a sixteenth of the size.

A component is kept as its sign and given back as that sign times 1 / sqrt(dimension), so a vector
stays one of length 1. What it costs in quality is in ``docs/findings.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engines.rerank.token_store import TokenStore
from engines.vector.scan import Half

BITS = 16
"""Of a half, in which as many signs are packed."""


def identity(embedder: str) -> str:
    """Name what makes such vectors, apart from the embedder alone."""
    return f"{embedder}, signs"


def packed_dimension(dimension: int) -> int:
    """Count the halves that hold the signs of a vector.

    Raises:
        ValueError: they do not fill whole halves.
    """
    if dimension % BITS:
        raise ValueError(f"{dimension} components do not fill halves of {BITS} bits")
    return dimension // BITS


def packed(vectors: Half) -> Half:
    """Pack signs, shape (tokens, dimension), into halves, shape (tokens, dimension / 16)."""
    bits = np.packbits(np.asarray(vectors) >= 0, axis=1)
    half: Half = bits.view("<f2").reshape(len(vectors), packed_dimension(vectors.shape[1]))
    return half


@dataclass(frozen=True, slots=True, eq=False)
class SignStore:
    """An open file of packed signs."""

    store: TokenStore

    @classmethod
    def open(cls, path: Path, embedder: str, dimension: int) -> SignStore:
        """Read and check the whole file once.

        Raises:
            IndexUnavailable: as ``TokenStore.open``.
        """
        return cls(TokenStore.open(path, identity(embedder), packed_dimension(dimension)))

    def __len__(self) -> int:
        return len(self.store)

    def of(self, text_id: int) -> Half:
        """Vectors of one text's tokens, shape (tokens, dimension), each of length 1.

        Raises:
            EngineError: the file has no such text.
        """
        halves = np.ascontiguousarray(self.store.of(text_id))
        bits = np.unpackbits(halves.view(np.uint8), axis=1)
        length = np.float16(1 / np.sqrt(halves.shape[1] * BITS))
        return np.where(bits, length, -length)
