"""Many texts to vectors: sorted by length, in parallel, kept by content, resumable.

Parts go through ``harness.core.batches``, so threads, processes or a cluster make them.

What a text becomes does not depend on what stands beside it (``engines.vector.embedder``), so it
does not matter where one part file ends and the next begins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.vector.embedder import Embedder
from harness.core.batches.batch import Batch
from harness.core.batches.mapping import map_batches
from harness.core.files import replacing
from harness.core.formats import MAX_INDEX_BYTES
from harness.core.progress import progress
from harness.core.reading import Malformed, whole

BATCH = 16
BATCH_CHARACTERS = 2_000
"""Long texts go alone: a batch that outgrows the processor's cache is slower, not faster."""
PART = 256
"""Texts that a part file holds at most."""
PART_S = 30.0
"""Work that a part file holds at most, as soon as it is one batch: a killed process loses no more
on each processor."""

VECTORS = "vectors"
"""Folder of the cache that holds one vector a text."""
RECORDED = "recorded.npy"
"""What came with a record (``engines.vector.recorded``); it counts before what was made here."""

Half = NDArray[np.float16]
Part = Sequence[tuple[bytes, str]]
"""Texts with their keys, shortest first."""
Make = Callable[[Sequence[str]], Any]
"""Works on one batch of texts."""
Write = Callable[[Part, Sequence[Any], Path], None]
"""Writes what was made of the batches of a part into a file."""


def embed_all(texts: Sequence[str], embedder: Embedder, cache: Path) -> Half:
    """Embed ``texts``; shape (texts, dimension), half precision.

    Vectors are kept below ``cache`` by the SHA-256 of their text, in part files that are written
    every half a minute, so that only texts never seen before cost anything.
    """
    folder = folder_of(cache, VECTORS, embedder)
    keys = [key_of(text) for text in texts]
    kept = _kept(folder, ())
    known = {key: vector for part in kept.values() for key, vector in part.items()}
    known |= read_recorded(folder / RECORDED)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    make_parts(missing, embedder.embed, _write_vectors, folder)
    for part in _kept(folder, kept).values() if missing else ():
        known |= part
    if not texts:
        return np.zeros((0, embedder.dimension), dtype=np.float16)
    return np.stack([known[key] for key in keys])


def key_of(text: str) -> bytes:
    """SHA-256 of a text, by which what is known of it is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def folder_of(cache: Path, kind: str, embedder: Embedder) -> Path:
    """Name the folder of part files; embedders of two identities share none."""
    return cache / kind / hashlib.sha256(embedder.identity.encode()).hexdigest()[:16]


def make_parts(missing: Mapping[bytes, str], make: Make, write: Write, folder: Path) -> None:
    """Let ``make`` work on texts batch by batch, long texts first, and ``write`` part files.

    A part file ends after ``PART`` texts or ``PART_S`` seconds. On an error or an interrupt the
    batches in work are done and kept, and no other is begun.
    """
    by_length = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [by_length[at : at + PART] for at in range(0, len(by_length), PART)]
    folder = folder.absolute()
    with progress("embedding", len(missing)) as advance:
        map_batches(
            Making(make, write, folder),
            [Batch(part, named(folder, part), len(part)) for part in parts[::-1]],
            advance=advance,
            whole=lambda _: False,
            threads=os.cpu_count() or 1,
        )


@dataclass(frozen=True, slots=True)
class Making:
    """Makes something of the texts of a part, and keeps what is done every ``PART_S`` seconds."""

    make: Make
    write: Write
    folder: Path

    def __call__(self, part: Part, beside: Path) -> Iterator[int]:
        made: list[Any] = []
        done: list[tuple[bytes, str]] = []
        began = monotonic()
        try:
            for batch in batches(part):
                if done and monotonic() - began >= PART_S:
                    self._keep(done, made)
                    made, done, began = [], [], monotonic()
                made.append(self.make([text for _, text in batch]))
                done += batch
                yield len(batch)
        except BaseException:
            if done:
                self._keep(done, made)
            raise
        self.write(done, made, beside)

    def _keep(self, part: Part, made: Sequence[Any]) -> None:
        with replacing(named(self.folder, part)) as beside:
            self.write(part, made, beside)


def named(folder: Path, part: Part) -> Path:
    """Name the file of a part by its keys."""
    return folder / f"{hashlib.sha256(b''.join(key for key, _ in part)).hexdigest()[:32]}.npz"


def save(path: Path, part: Part, vectors: Half, **more: NDArray[np.int64]) -> None:
    """Write what was made of a part beside its keys."""
    keys = np.frombuffer(b"".join(key for key, _ in part), dtype=np.uint8).reshape(-1, 32)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, keys=keys, vectors=vectors, **more)


def _write_vectors(part: Part, made: Sequence[NDArray[np.float32]], path: Path) -> None:
    save(path, part, np.concatenate(made).astype(np.float16))


def batches(part: Part) -> Iterator[Part]:
    """Cut texts, sorted by length, into batches that stay small."""
    batch: list[tuple[bytes, str]] = []
    for key, text in part:
        if len(batch) == BATCH or (batch and (len(batch) + 1) * len(text) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append((key, text))
    if batch:
        yield batch


def _kept(folder: Path, but: Collection[Path]) -> dict[Path, dict[bytes, Half]]:
    """Read the part files other than ``but``; what a broken one held is embedded again."""
    found: dict[Path, dict[bytes, Half]] = {}
    for path in sorted(set(folder.glob("*.npz")).difference(but)):
        try:
            with path.open("rb") as file, np.load(file) as part:
                keys, vectors = part["keys"], part["vectors"]
            found[path] = dict(zip([key.tobytes() for key in keys], vectors, strict=True))
        except (OSError, EOFError, ValueError, KeyError, BadZipFile):
            continue
    return found


def read_recorded(path: Path) -> dict[bytes, Half]:
    """Read vectors by the key of their text; nothing without a whole file."""
    try:
        rows = np.load(BytesIO(whole(path, most=MAX_INDEX_BYTES)), allow_pickle=False)
        return dict(zip([key.tobytes() for key in rows["key"]], rows["vector"], strict=True))
    except (OSError, EOFError, ValueError, IndexError, Malformed):
        return {}
