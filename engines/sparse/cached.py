"""Many texts to weighted terms: kept by content and resumable, like ``engines.vector.bulk``."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.sparse.splade import Terms
from engines.sparse.store import SparseStore
from engines.vector import bulk

SPARSE = "sparse"
"""Folder of the cache."""


class SparseEncoder(Protocol):
    """Maps text to weighted terms; the same text always to the same."""

    @property
    def identity(self) -> str:
        """Everything that the terms depend on beside the text."""
        ...

    def encode(self, text: str) -> Terms:
        """Weigh the terms of one text."""
        ...


class Kept(NamedTuple):
    """One part file."""

    keys: list[bytes]
    ends: NDArray[np.int64]
    """Where the terms of each text end; those of the next one begin there."""
    terms: NDArray[np.int64]
    weights: NDArray[np.float16]


def encode_all(
    texts: Sequence[str], encoder: SparseEncoder, vocabulary: int, cache: Path
) -> SparseStore:
    """Weigh the terms of ``texts``, in half precision; row n is that of text n.

    Only texts never seen before cost anything.
    """
    folder = cache / SPARSE / hashlib.sha256(encoder.identity.encode()).hexdigest()[:16]
    keys = [bulk.key_of(text) for text in texts]
    wanted = frozenset(keys)
    held = {key for kept in _parts(folder, wanted) for key in kept.keys}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in held}
    bulk.make_parts(missing, partial(_encoded, encoder), _write, folder)
    by_key: dict[bytes, tuple[NDArray[np.int64], NDArray[np.float16]]] = {}
    for kept in _parts(folder, wanted):
        cuts = kept.ends[:-1]
        rows = zip(np.split(kept.terms, cuts), np.split(kept.weights, cuts), strict=True)
        by_key.update(zip(kept.keys, rows, strict=True))
    return SparseStore.of([by_key[key] for key in keys], vocabulary)


def _encoded(encoder: SparseEncoder, batch: Sequence[str]) -> list[Terms]:
    return [encoder.encode(text) for text in batch]


def _write(part: bulk.Part, made: Sequence[list[Terms]], path: Path) -> None:
    found = [terms for batch in made for terms in batch]
    weights = np.concatenate([each.weights for each in found]).astype(np.float16)
    terms = np.concatenate([each.terms for each in found])
    lengths = np.array([len(each.terms) for each in found], dtype=np.int64)
    bulk.save(path, part, weights, terms=terms, lengths=lengths)


def _parts(folder: Path, wanted: Collection[bytes]) -> Iterator[Kept]:
    """Read the part files that hold wanted texts; what a broken one held is not there."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as file, np.load(file) as part:
                keys = [key.tobytes() for key in part["keys"]]
                if not any(key in wanted for key in keys):
                    continue
                ends, terms = np.cumsum(part["lengths"]), part["terms"]
                weights = part["vectors"]
        except (OSError, EOFError, ValueError, KeyError, BadZipFile):
            continue
        if len(ends) == len(keys) and ends[-1] == len(terms) == len(weights):
            yield Kept(keys, ends, terms, weights)
