"""Many texts to vectors: sorted by length, in parallel, kept by content, resumable."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from engines.vector.embedder import Embedder
from harness.core.files import replacing

BATCH = 16
BATCH_CHARACTERS = 2_000
"""Long texts go alone: a batch that outgrows the processor's cache is slower, not faster."""
PART = 256
"""Texts a part file holds; a killed process loses at most the parts in work."""

VECTORS = "vectors"
"""Folder of the cache that holds one vector a text."""

Half = NDArray[np.float16]
Part = Sequence[tuple[bytes, str]]
"""Texts with their keys, shortest first."""
Made = TypeVar("Made")


def embed_all(texts: Sequence[str], embedder: Embedder, cache: Path) -> Half:
    """Embed ``texts``; shape (texts, dimension), half precision.

    Vectors are kept below ``cache`` by the SHA-256 of their text, in part files that are written
    as soon as each is full, so that only texts never seen before cost anything.
    """
    folder = folder_of(cache, VECTORS, embedder)
    keys = [key_of(text) for text in texts]
    known = _known(folder)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}

    def one(part: Part) -> dict[bytes, Half]:
        vectors = np.concatenate([embedder.embed(batch) for batch in batches(part)])
        half = vectors.astype(np.float16)
        keep(folder, part, vectors=half)
        return dict(zip([key for key, _ in part], half, strict=True))

    for part in each_part(missing, one):
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


def each_part(missing: Mapping[bytes, str], one: Callable[[Part], Made]) -> Iterator[Made]:
    """Let ``one`` work on texts part by part, a part a processor at a time, long texts first."""
    by_length = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [by_length[at : at + PART] for at in range(0, len(by_length), PART)]
    columns = (TextColumn("embedding"), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    with progress, ThreadPoolExecutor(os.cpu_count()) as pool:
        task = progress.add_task("", total=len(missing))
        for part, done in zip(parts[::-1], pool.map(one, parts[::-1]), strict=True):
            progress.advance(task, len(part))
            yield done


def keep(folder: Path, part: Part, vectors: Half, **more: NDArray[np.int64]) -> None:
    """Write what was made of a part beside its keys."""
    keys = np.frombuffer(b"".join(key for key, _ in part), dtype=np.uint8).reshape(-1, 32)
    name = hashlib.sha256(keys.tobytes()).hexdigest()[:32]
    with replacing(folder / f"{name}.npz") as beside, beside.open("wb") as file:
        np.savez(file, allow_pickle=False, keys=keys, vectors=vectors, **more)


def batches(part: Part) -> Iterator[list[str]]:
    """Cut texts, sorted by length, into batches that stay small."""
    batch: list[str] = []
    for _, text in part:
        if len(batch) == BATCH or (batch and (len(batch) + 1) * len(text) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(text)
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
    return found
