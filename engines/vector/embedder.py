"""Text to unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """Maps text to vectors of length 1; the same text always to the same vector."""

    @property
    def identity(self) -> str:
        """Everything that a vector depends on beside its text; two that differ share no cache."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed a batch; shape (texts, dimension). A text without any token gives zeros."""
        ...


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length 1; a row of zeros stays."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.zeros_like(vectors)
    np.divide(vectors, length, out=scaled, where=length > 0)
    return scaled
