"""Many texts to vectors, kept by content; and vectors that a record brings along."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from harness.core.batches import Batch, map_batches
from harness.core.engine import VectorAgreement
from harness.core.errors import HarnessError
from harness.core.files import above, replacing, told
from harness.core.formats import MAX_INDEX_BYTES
from harness.core.progress import progress
from harness.core.reading import Malformed, whole
from harness_engines.vector.embedder import Embedder

BATCH = 16
BATCH_CHARACTERS = 2_000
"""Long texts go alone: a batch that outgrows the processor's cache is slower, not faster."""
PART = 64
"""Texts that a part file holds at most; a killed process loses no more on each processor."""
HALF_BYTES, IN_MEMORY = 2, 256 << 20
"""Bytes of a component; bytes of vectors from which they are mapped."""

VECTORS = "vectors"
"""Folder of the cache that holds one vector a text."""
RECORDED = "recorded.npy"
"""What came with a record (``vector.bulk``); it counts before what was made here."""

Half = NDArray[np.float16]
Part = Sequence[tuple[bytes, str]]
"""Texts with their keys, shortest first."""
Make = Callable[[Sequence[str]], Any]
"""Works on one batch of texts."""
Write = Callable[[Part, Sequence[Any], Path], None]
"""Writes what was made of the batches of a part into a file."""


def embed_all(texts: Sequence[str], embedder: Embedder, cache: Path) -> Half:
    """Embed ``texts``; shape (texts, dimension), half precision, mapped where they are many.

    Vectors are kept below ``cache`` by the SHA-256 of their text, in part files that are written
    as they are done, so that only texts never seen before cost anything. A text in which nothing
    is seen is near nothing: its vector is zero.
    """
    folder = folder_of(cache, VECTORS, embedder)
    known = {key for keys, _ in _stored(folder) for key in keys}
    keys = [key_of(text) for text in texts]
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    make_parts(missing, embedder.embed, _write_vectors, folder)
    found = _gathered(keys, embedder.dimension, folder)
    for row, text in enumerate(texts):
        if not any(one.isprintable() and not one.isspace() for one in text):
            found[row] = 0
    return found


def _gathered(keys: Sequence[bytes], dimension: int, folder: Path) -> Half:
    """Collect stored vectors in rows, one for each key; what is recorded counts before the rest."""
    first: dict[bytes, int] = {}
    copies = [
        (row, at) for row, key in enumerate(keys) if (at := first.setdefault(key, row)) != row
    ]
    found = _rows(len(keys), dimension)
    lacking = set(first)
    for stored, vectors in _stored(folder):
        pairs = [(first[key], at) for at, key in enumerate(stored) if key in first]
        if pairs:
            rows, places = np.array(pairs).T
            found[rows] = vectors[places]
            lacking.difference_update(stored)
    if lacking:
        raise HarnessError(f"{folder}: {len(lacking)} vectors were removed. Run the command again")
    for row, at in copies:
        found[row] = found[at]
    return found


def _rows(count: int, dimension: int) -> Half:
    """Make room for vectors: in memory, or in a file without a name where they take much."""
    if count * dimension * HALF_BYTES <= IN_MEMORY:
        return np.empty((count, dimension), dtype=np.float16)
    folder = above()
    with told(folder), TemporaryFile(dir=folder) as file:
        file.writelines(repeat(bytes(dimension * HALF_BYTES), count))
        file.flush()
        return np.memmap(file, dtype=np.float16, mode="w+", shape=(count, dimension))


def key_of(text: str) -> bytes:
    """SHA-256 of a text, by which what is known of it is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def folder_of(cache: Path, kind: str, embedder: Embedder) -> Path:
    """Name the folder of part files; embedders of two identities share none."""
    return cache / kind / hashlib.sha256(embedder.identity.encode()).hexdigest()[:16]


def make_parts(missing: Mapping[bytes, str], make: Make, write: Write, folder: Path) -> None:
    """Call ``make`` on texts batch by batch, long texts first, and ``write`` part files.

    On an error or an interrupt the batches in work are done, and no other is begun.
    """
    by_length = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [by_length[at : at + PART] for at in range(0, len(by_length), PART)]
    folder = folder.absolute()
    with progress("embedding", len(missing)) as advance:
        map_batches(
            partial(_made, make, write),
            [Batch(part, named(folder, part), len(part)) for part in parts[::-1]],
            advance=advance,
            whole=lambda _: False,
            threads=os.cpu_count() or 1,
        )


def _made(make: Make, write: Write, part: Part, beside: Path) -> Iterator[int]:
    """Make something of the texts of a part, and write it."""
    made = []
    for batch in batches(part):
        made.append(make([text for _, text in batch]))
        yield len(batch)
    write(part, made, beside)


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


def _stored(folder: Path) -> Iterator[tuple[list[bytes], Half]]:
    """Yield keys and vectors, file by file, the recorded ones last."""
    for keys, (vectors,) in parts_of(folder, "vectors"):
        if len(keys) == len(vectors):
            yield keys, vectors
    if recorded := read_recorded(folder / RECORDED):
        yield list(recorded), np.stack(list(recorded.values()))


def parts_of(
    folder: Path, *columns: str, wanted: Collection[bytes] | None = None
) -> Iterator[tuple[list[bytes], list[NDArray[Any]]]]:
    """Yield keys and columns of the part files that hold wanted texts (None: all)."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as file, np.load(file) as part:
                keys = [key.tobytes() for key in part["keys"]]
                if wanted is not None and not any(key in wanted for key in keys):
                    continue
                found = [part[name] for name in columns]
        except (OSError, EOFError, ValueError, KeyError, BadZipFile):
            continue
        yield keys, found


def rows_of(
    folder: Path, *columns: str, wanted: Collection[bytes]
) -> Iterator[tuple[bytes, tuple[NDArray[Any], ...]]]:
    """Yield keys with their stretch of each column, in part files that hold wanted texts."""
    for keys, (lengths, *found) in parts_of(folder, "lengths", *columns, wanted=wanted):
        ends = np.cumsum(lengths)
        if len(ends) == len(keys) and all(len(column) == ends[-1] for column in found):
            cut = [np.split(column, ends[:-1]) for column in found]
            yield from zip(keys, zip(*cut, strict=True), strict=True)


def read_recorded(path: Path) -> dict[bytes, Half]:
    """Read vectors by the key of their text; nothing without a whole file."""
    try:
        rows = np.load(BytesIO(whole(path, most=MAX_INDEX_BYTES)), allow_pickle=False)
        return dict(zip([key.tobytes() for key in rows["key"]], rows["vector"], strict=True))
    except (OSError, EOFError, ValueError, IndexError, Malformed):
        return {}


NEAR = 2.0**-11
"""One unit of half precision below 1, the most that rounding makes of a difference far below it."""
SAMPLE = 32
"""Texts that are embedded anew before the vectors of a record are taken."""


@dataclass(frozen=True, slots=True)
class RecordedEmbedder:
    """An embedder that gives what is recorded of a text, if its own vector says the same."""

    embedder: Embedder
    identity: str
    dimension: int
    known: Mapping[bytes, Half]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        fresh = self.embedder.embed(texts)
        for row, text in enumerate(texts):
            told = self.known.get(key_of(text))
            if told is not None and largest_difference(fresh[row], told) <= NEAR:
                fresh[row] = told
        return fresh


def largest_difference(fresh: NDArray[np.float32], told: Half) -> float:
    """Return the largest difference of two vectors in one component."""
    return float(np.abs(fresh - told.astype(np.float32)).max())


def recorded(embedder: Embedder, cache: Path) -> Embedder:
    """Return the embedder with the cached vectors of a record; itself where there are none."""
    known = read_recorded(folder_of(cache, VECTORS, embedder) / RECORDED)
    if not known:
        return embedder
    return RecordedEmbedder(embedder, embedder.identity, embedder.dimension, known)


def write(folder: Path, embedder: Embedder, cache: Path, texts: Sequence[str]) -> Path:
    """Write the vectors of ``texts`` into a file of ``folder`` that the embedder names."""
    by_key = {key_of(text): text for text in texts}
    keys = sorted(by_key)
    vectors = embed_all([by_key[key] for key in keys], embedder, cache)
    row = np.dtype([("key", "u1", 32), ("vector", "<f2", embedder.dimension)])
    rows = np.zeros(len(keys), dtype=row)
    rows["key"] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 32)
    rows["vector"] = vectors
    path = _file(folder, embedder, cache)
    with replacing(path) as beside, beside.open("wb") as file:
        np.save(file, rows, allow_pickle=False)
    return path


def take(
    folder: Path, embedder: Embedder, cache: Path, texts: Sequence[str]
) -> VectorAgreement | None:
    """Copy the record's vectors into the cache, if fresh ones of a sample of ``texts`` agree."""
    path = _file(folder, embedder, cache)
    known = read_recorded(path)
    sample = sorted(set(texts), key=key_of)[:SAMPLE]
    if not sample or any(key_of(text) not in known for text in sample):
        return None
    fresh = [embedder.embed([text])[0] for text in sample]
    furthest = max(
        largest_difference(vector, known[key_of(text)])
        for vector, text in zip(fresh, sample, strict=True)
    )
    used = furthest <= NEAR
    if used:
        to = folder_of(cache, VECTORS, embedder) / RECORDED
        with replacing(to) as beside:
            beside.write_bytes(whole(path, most=MAX_INDEX_BYTES))
    return VectorAgreement(furthest, used)


def _file(folder: Path, embedder: Embedder, cache: Path) -> Path:
    return folder / f"{folder_of(cache, VECTORS, embedder).name}.npy"
