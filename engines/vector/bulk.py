"""Many texts to vectors: sorted by length, in parallel, kept by content, resumable.

What a text becomes does not depend on what stands beside it (``engines.vector.embedder``), so it
does not matter where one part file ends and the next begins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.vector.embedder import Embedder
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
Made = TypeVar("Made")
Found = TypeVar("Found")


def embed_all(texts: Sequence[str], embedder: Embedder, cache: Path) -> Half:
    """Embed ``texts``; shape (texts, dimension), half precision.

    Vectors are kept below ``cache`` by the SHA-256 of their text, in part files that are written
    every half a minute, so that only texts never seen before cost anything.
    """
    folder = folder_of(cache, VECTORS, embedder)
    keys = [key_of(text) for text in texts]
    known = _known(folder)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}

    def kept(part: Part, made: Sequence[NDArray[np.float32]]) -> dict[bytes, Half]:
        half = np.concatenate(made).astype(np.float16)
        keep(folder, part, vectors=half)
        return dict(zip([key for key, _ in part], half, strict=True))

    for part in each_part(missing, embedder.embed, kept):
        known.update(part)
    if not texts:
        return np.zeros((0, embedder.dimension), dtype=np.float16)
    return np.stack([known[key] for key in keys])


def key_of(text: str) -> bytes:
    """SHA-256 of a text, by which what is known of it is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def folder_of(cache: Path, kind: str, embedder: Embedder) -> Path:
    """Name the folder of part files; embedders of two identities share none."""
    return cache / kind / hashlib.sha256(embedder.identity.encode()).hexdigest()[:16]


def each_part(
    missing: Mapping[bytes, str],
    make: Callable[[Sequence[str]], Made],
    kept: Callable[[Part, Sequence[Made]], Found],
) -> Iterator[Found]:
    """Let ``make`` work on texts batch by batch, a batch a processor at a time, long texts first.

    ``kept`` writes down what was made of a part, which ends after ``PART`` texts or ``PART_S``
    seconds, and gives what is to be given. On an error or an interrupt the batches in work are done
    and kept, and no other is begun.
    """
    by_length = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [by_length[at : at + PART] for at in range(0, len(by_length), PART)]
    stop = Event()

    def work(part: Part) -> list[Found]:
        found: list[Found] = []
        made: list[Made] = []
        done: list[tuple[bytes, str]] = []
        began = monotonic()
        try:
            for batch in batches(part):
                if stop.is_set():
                    break
                made.append(make([text for _, text in batch]))
                done += batch
                advance(len(batch))
                if monotonic() - began >= PART_S:
                    found.append(kept(done, made))
                    made, done, began = [], [], monotonic()
        finally:
            if done:
                found.append(kept(done, made))
        return found

    with progress("embedding", len(missing)) as advance, ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for found in pool.map(work, parts[::-1]):
                yield from found
        finally:
            stop.set()


def keep(folder: Path, part: Part, vectors: Half, **more: NDArray[np.int64]) -> None:
    """Write what was made of a part beside its keys."""
    keys = np.frombuffer(b"".join(key for key, _ in part), dtype=np.uint8).reshape(-1, 32)
    name = hashlib.sha256(keys.tobytes()).hexdigest()[:32]
    with replacing(folder / f"{name}.npz") as beside, beside.open("wb") as file:
        np.savez(file, allow_pickle=False, keys=keys, vectors=vectors, **more)


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


def _known(folder: Path) -> dict[bytes, Half]:
    """Read every part file of an earlier run; what one that is broken held is embedded again."""
    found: dict[bytes, Half] = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as file, np.load(file) as part:
                keys, vectors = part["keys"], part["vectors"]
            found.update(zip([key.tobytes() for key in keys], vectors, strict=True))
        except (OSError, EOFError, ValueError, KeyError, BadZipFile):
            continue
    return found | read_recorded(folder / RECORDED)


def read_recorded(path: Path) -> dict[bytes, Half]:
    """Read vectors by the key of their text; nothing where there is no whole file."""
    try:
        rows = np.load(BytesIO(whole(path, most=MAX_INDEX_BYTES)), allow_pickle=False)
        return dict(zip([key.tobytes() for key in rows["key"]], rows["vector"], strict=True))
    except (OSError, EOFError, ValueError, IndexError, Malformed):
        return {}
