"""Vectors of texts that were embedded lately, bounded in number and in bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.vector.embedder import Embedder

Vector = NDArray[np.float32]


class _Held(NamedTuple):
    vector: Vector
    size: int


@dataclass(slots=True)
class VectorCache:
    """Least recently used out first; the key is the model's identity and the text itself."""

    most_entries: int
    most_bytes: int
    """Of vectors, texts and identities together."""
    held_bytes: int = 0
    _held: OrderedDict[tuple[str, str], _Held] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __len__(self) -> int:
        """Count the vectors."""
        return len(self._held)

    def vector(self, embedder: Embedder, text: str) -> Vector:
        """Give the vector of one text, shape (dimension,).

        Each text is embedded by itself. What a quantised model gives may depend on the texts
        beside it in a batch, and a vector that was kept must be the one that would be made.
        """
        key = (embedder.identity, text)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found.vector
        vector: Vector = embedder.embed([text])[0]
        vector.flags.writeable = False
        self._keep(key, vector)
        return vector

    def _keep(self, key: tuple[str, str], vector: Vector) -> None:
        size = vector.nbytes + sum(len(part.encode(errors="replace")) for part in key)
        if size > self.most_bytes or not self.most_entries:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self.held_bytes += size - (old.size if old else 0)
            self._held[key] = _Held(vector, size)
            while len(self._held) > self.most_entries or self.held_bytes > self.most_bytes:
                _, gone = self._held.popitem(last=False)
                self.held_bytes -= gone.size
