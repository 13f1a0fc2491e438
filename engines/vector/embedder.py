"""Text to unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

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


class Reading(NamedTuple):
    """What one pass of a model gives for a batch of texts."""

    pooled: NDArray[np.float32]
    """Shape (texts, dimension): what ``embed`` gives, bit for bit."""
    tokens: tuple[NDArray[np.float32], ...]
    """For each text its tokens' unit vectors, shape (tokens, dimension), in reading order; the
    two that frame a text are among them."""


class TokenEmbedder(Embedder, Protocol):
    """An embedder that can also show the vector of each token."""

    def read(self, texts: Sequence[str]) -> Reading:
        """Embed a batch and keep the tokens."""
        ...


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length 1; a row of zeros stays."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.zeros_like(vectors)
    np.divide(vectors, length, out=scaled, where=length > 0)
    return scaled
