"""Texts to a file of token vectors: kept by content and resumable, like ``engines.vector.bulk``.

A token takes dimension x 2 bytes, 768 with all-MiniLM-L6-v2, and it takes them twice: in the
cache and in the index. As signs it takes 48 in the index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from engines.rerank import token_store
from engines.rerank.signs import identity, packed, packed_dimension
from engines.rerank.token_store import Contents, Ids
from engines.vector import bulk
from engines.vector.embedder import Reading, TokenEmbedder
from engines.vector.scan import Half
from harness.core.files import replacing

TOKENS = "tokens"
"""Folder of the cache."""


class Kept(NamedTuple):
    """One part file."""

    keys: list[bytes]
    ends: Ids
    """Where the vectors of each text end; those of the next one begin there."""
    vectors: Half


def write_tokens(
    path: Path,
    ids: Sequence[int],
    texts: Sequence[str],
    embedder: TokenEmbedder,
    cache: Path,
    *,
    one_bit: bool = False,
) -> None:
    """Write the token vectors of ``texts`` into ``path``; ``ids`` ascend.

    With ``one_bit`` the file has only the sign of each component (``engines.rerank.signs``).

    Only texts never seen before are read by the model, and the one pass keeps both their tokens and
    their pooled vectors, so that ``engines.vector.bulk.embed_all`` finds those made. One part
    file at a time is in memory.
    """
    folder = bulk.folder_of(cache, TOKENS, embedder)
    rows: dict[bytes, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(bulk.key_of(text), []).append(row)
    held = {key for kept in _parts(folder, rows) for key in kept.keys}
    missing = {key: texts[at[0]] for key, at in rows.items() if key not in held}
    _embed(missing, embedder, cache)
    lengths = np.zeros(len(texts), dtype=np.int64)
    for kept in _parts(folder, rows):
        for key, length in zip(kept.keys, np.diff(kept.ends, prepend=0), strict=True):
            lengths[rows.get(key, [])] = length

    def fill(slab: Half, offsets: Ids) -> None:
        for kept in _parts(folder, rows):
            for key, vectors in zip(kept.keys, np.split(kept.vectors, kept.ends[:-1]), strict=True):
                for row in rows.get(key, []):
                    slab[offsets[row] : offsets[row + 1]] = packed(vectors) if one_bit else vectors

    numbers = np.array(ids, dtype=np.int64)
    contents = Contents(numbers, lengths, fill)
    name, dimension = embedder.identity, embedder.dimension
    if one_bit:
        name, dimension = identity(name), packed_dimension(dimension)
    token_store.write(path, name, dimension, contents)


def _embed(missing: dict[bytes, str], embedder: TokenEmbedder, cache: Path) -> None:
    """Read texts, and keep tokens and pooled vectors of each part as soon as it is done."""
    write = _Write(bulk.folder_of(cache, bulk.VECTORS, embedder).absolute())
    bulk.make_parts(missing, embedder.read, write, bulk.folder_of(cache, TOKENS, embedder))


@dataclass(frozen=True, slots=True)
class _Write:
    pooled: Path
    """Folder of the pooled vectors."""

    def __call__(self, part: bulk.Part, readings: Sequence[Reading], path: Path) -> None:
        tokens = [text.astype(np.float16) for reading in readings for text in reading.tokens]
        pooled = np.concatenate([reading.pooled for reading in readings]).astype(np.float16)
        lengths = np.array([len(text) for text in tokens], dtype=np.int64)
        with replacing(bulk.named(self.pooled, part)) as beside:
            bulk.save(beside, part, pooled)
        bulk.save(path, part, np.concatenate(tokens), lengths=lengths)


def _parts(folder: Path, wanted: Collection[bytes]) -> Iterator[Kept]:
    """Read the part files that hold wanted texts; what a broken one held is not there."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as file, np.load(file) as part:
                keys = [key.tobytes() for key in part["keys"]]
                if not any(key in wanted for key in keys):
                    continue
                ends = np.cumsum(part["lengths"])
                vectors = part["vectors"]
        except (OSError, EOFError, ValueError, KeyError, BadZipFile):
            continue
        if len(ends) == len(keys) and ends[-1] == len(vectors):
            yield Kept(keys, ends, vectors)
