"""Token vectors made shorter: the directions that carry most of their dot products.

A principal component analysis without centring. What must survive is the dot product of two
tokens. Of all linear maps to so few dimensions the leading eigenvectors of the second moment
lose the least of it. The proof is in Eckart and Young, "The approximation of one matrix by another
of lower rank", 1936. The map is fitted to the tokens of the collection, and kept beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.vector.embedder import unit
from harness.core.errors import IndexNotReady
from harness.core.files import replacing

DIMENSION = 64
"""Specification 004, section 5: one vector of 64 a token."""
NOTHING = 1e-6
"""Share of the largest eigenvalue below which a direction is what half precision rounds."""
TOKENS_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A linear map of token vectors."""

    components: NDArray[np.float32]
    """Shape (from, ``DIMENSION``); a column is a unit vector, or zeros."""
    kept: float
    """Share of the tokens' squared length that survives, in [0, 1]; 1 where there are none."""

    @classmethod
    def fit(cls, vectors: NDArray[np.float16]) -> Projection:
        """Fit to token vectors, shape (tokens, from); they may be mapped from a file."""
        width = vectors.shape[1]
        moment = np.zeros((width, width))
        for low in range(0, len(vectors), TOKENS_AT_ONCE):
            part = np.asarray(vectors[low : low + TOKENS_AT_ONCE], dtype=np.float32)
            moment += part.T @ part
        values, columns = np.linalg.eigh(moment)
        values, columns = values[::-1][:DIMENSION], columns[:, ::-1][:, :DIMENSION]
        strongest = np.abs(columns).argmax(axis=0)
        columns = columns * np.sign(columns[strongest, np.arange(columns.shape[1])])
        columns = columns * (values > NOTHING * max(values[0], 0.0))
        whole = float(np.trace(moment))
        kept = float(values.clip(0.0).sum()) / whole if whole > 0 else 1.0
        return cls(columns.astype(np.float32), min(1.0, kept))

    def __call__(self, vectors: NDArray[np.float16]) -> NDArray[np.float16]:
        """Map token vectors and scale them to length 1; shape (tokens, ``DIMENSION``)."""
        shorter = np.asarray(vectors, dtype=np.float32) @ self.components
        return unit(shorter).astype(np.float16)

    def write(self, path: Path) -> None:
        """Write the map."""
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez(file, allow_pickle=False, components=self.components, kept=np.array(self.kept))

    @classmethod
    def open(cls, path: Path, width: int) -> Projection:
        """Read a map of vectors of ``width``.

        Raises:
            IndexNotReady: it is missing, broken or of another shape.
        """
        try:
            with path.open("rb") as file, np.load(file) as part:
                found = cls(part["components"], float(part["kept"]))
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as exc:
            raise IndexNotReady(f"{path}: {exc}. Build it again: harness index") from exc
        if found.components.shape != (width, DIMENSION):
            raise IndexNotReady(
                f"{path}: maps {found.components.shape} and not {(width, DIMENSION)}."
                " Build it again: harness index"
            )
        return found
