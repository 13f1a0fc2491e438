"""The embedder that an arm names: a model of ``engines.vector.models``, or the hash embedder.

The hash embedder puts words into buckets and knows no meaning: the floor that a semantic arm must
beat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.vector.embedder import Embedder, unit
from engines.vector.models import MODELS, model
from engines.vector.onnx import OnnxEmbedder
from engines.vector.onnx import identity_of as of_model

HASH = "hash"
FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
MASK_64 = (1 << 64) - 1
WORD = re.compile(r"[^\W_]+")


def fnv1a_64(data: bytes) -> int:
    """Hash bytes with FNV-1a, 64 bits (Fowler, Noll and Vo)."""
    found = FNV_OFFSET
    for byte in data:
        found = ((found ^ byte) * FNV_PRIME) & MASK_64
    return found


@dataclass(frozen=True, slots=True)
class HashEmbedder:
    """Signed feature hashing of lower-cased words (Weinberger and others, ICML 2009).

    A word's bucket is its hash modulo the dimension. It adds 1 there if the hash's highest bit is
    set and takes 1 away if not (decision 16 of the agent mail stack).
    """

    dimension: int = 384

    @property
    def identity(self) -> str:
        return f"fnv1a-64, {self.dimension} dimensions"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in WORD.findall(text.lower()):
                hashed = fnv1a_64(word.encode("utf-8", "surrogatepass"))
                found[row, hashed % self.dimension] += 1.0 if hashed >> 63 else -1.0
        return unit(found)


def embedder_of(name: str, max_tokens: int) -> Embedder:
    """Open a model of ``engines.vector.models``, or the hash embedder.

    Raises:
        UnknownName: the model is unknown.
        ModelNotReady: it is absent or not the pinned one.
    """
    return HashEmbedder() if name == HASH else OnnxEmbedder.load(model(name), max_tokens)


def identity_of(name: str, max_tokens: int) -> str:
    """Give the identity of an embedder without opening it.

    Raises:
        UnknownName: the model is unknown.
    """
    return HashEmbedder().identity if name == HASH else of_model(model(name), max_tokens)


def apart(one: str, other: str) -> bool:
    """Whether vectors of two known embedders have no directions in common."""
    weights = {HASH: HASH} | {known.name: known.weights.sha256 for known in MODELS}
    return one in weights and other in weights and weights[one] != weights[other]
