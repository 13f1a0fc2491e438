"""The weighted terms of all texts, row after row, and their dot products with a query's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.sparse.splade import Terms
from engines.vector.scan import COSINE_DIGITS
from harness.core.errors import IndexNotReady
from harness.core.files import replacing

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SparseStore:
    """Compressed rows: those of text n lie from ``offsets[n]`` up to ``offsets[n + 1]``."""

    vocabulary: int
    offsets: Ints
    """Shape (texts + 1,)."""
    terms: NDArray[np.uint16]
    weights: NDArray[np.float16]

    @classmethod
    def of(cls, rows: Sequence[tuple[Ints, NDArray[np.float16]]], vocabulary: int) -> SparseStore:
        """Put rows of terms and weights one after another.

        Raises:
            ValueError: the vocabulary is too large to be numbered in 16 bits.
        """
        if vocabulary > 1 << 16:
            raise ValueError(f"a vocabulary of {vocabulary} terms does not fit 16 bits")
        lengths = [len(terms) for terms, _ in rows]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float16)
        terms = np.concatenate([nothing[0], *(terms for terms, _ in rows)])
        weights = np.concatenate([nothing[1], *(weights for _, weights in rows)])
        return cls(vocabulary, offsets, terms.astype(np.uint16), weights)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def dots(self, query: Terms, rows: Ints) -> NDArray[np.float64]:
        """Dot product of ``query`` with each of ``rows``, shape (rows,), not bounded above.

        Rounded to ``COSINE_DIGITS``, below which processors differ.
        """
        asked = np.zeros(self.vocabulary)
        asked[query.terms] = query.weights
        starts, lengths = self.offsets[rows], np.diff(self.offsets)[rows]
        owner = np.repeat(np.arange(len(rows)), lengths)
        before = np.cumsum(lengths) - lengths
        at = np.arange(len(owner)) - before[owner] + starts[owner]
        parts = asked[self.terms[at]] * self.weights[at]
        return np.round(np.bincount(owner, parts, minlength=len(rows)), COSINE_DIGITS)

    def write(self, path: Path) -> None:
        """Write everything into one file."""
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                vocabulary=np.array(self.vocabulary),
                offsets=self.offsets,
                terms=self.terms,
                weights=self.weights,
            )

    @classmethod
    def open(cls, path: Path) -> SparseStore:
        """Read what ``write`` wrote.

        Raises:
            IndexNotReady: the file is missing, broken, or its parts do not fit each other.
        """
        try:
            with path.open("rb") as file, np.load(file) as part:
                found = cls(
                    int(part["vocabulary"]), part["offsets"], part["terms"], part["weights"]
                )
        except (OSError, EOFError, ValueError, KeyError, BadZipFile) as exc:
            raise IndexNotReady(f"{path}: {exc}. Build it again: harness index") from exc
        offsets, size = found.offsets, len(found.terms)
        if offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
            raise IndexNotReady(f"{path}: its rows do not fit. Build it again: harness index")
        if size != len(found.weights) or (size and int(found.terms.max()) >= found.vocabulary):
            raise IndexNotReady(f"{path}: its terms do not fit. Build it again: harness index")
        return found
