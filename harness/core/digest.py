"""SHA-256 of the things whose identity decides whether two results may be compared."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.core.errors import BadFile
from harness.core.reading import Malformed, naming, opened
from harness.core.records import Document, Query

CHUNK_BYTES = 1 << 20
KEPT = 4096
SETTLED_NS = 20_000_000
"""A clock of a file system ticks in less, so a second change shows in the times of a file."""


def of_bytes(data: bytes) -> str:
    """Digest of ``data``, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def of_file(path: Path, algorithm: str = "sha256") -> str:
    """Digest of a file's bytes; a process reads each state (identity, size, times) once."""
    now, about = time.time_ns(), path.stat()
    if (known := _known.get((algorithm, *_state(about)))) is not None:
        return known
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with naming(path), opened(path) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except Malformed as exc:
        raise BadFile(path, str(exc), "Give a file.") from exc
    found = digest.hexdigest()
    if now - about.st_ctime_ns >= SETTLED_NS:
        if len(_known) >= KEPT:
            _known.pop(next(iter(_known)), None)
        _known[algorithm, *_state(about)] = found
    return found


_known: dict[tuple[str | int, ...], str] = {}


def _state(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def of_files(paths: Iterable[Path]) -> str:
    """Digest of several files' names and bytes, in any order."""
    return of_json(sorted((path.name, of_file(path)) for path in paths))


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def of_json(value: Any) -> str:  # noqa: ANN401  whatever json can write
    """Digest of ``value`` as JSON with sorted keys and no spaces."""
    return of_bytes(_JSON.encode(value).encode())


class DocumentsDigest:
    """Digest of documents while they are iterated: ``for d in digest.watch(documents)``."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()
        self.count = 0

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield ``documents`` unchanged, remembering them."""
        for document in documents:
            fields = [document.doc_id, document.title, document.text, dict(document.metadata)]
            self._found.update(of_json(fields).encode())
            self.count += 1
            yield document

    @property
    def sha256(self) -> str:
        """Digest of all documents seen so far, in their order."""
        return self._found.hexdigest()


def of_documents(documents: Iterable[Document]) -> str:
    """Digest of ``documents`` in their order."""
    digest = DocumentsDigest()
    for _ in digest.watch(documents):
        pass
    return digest.sha256


def of_queries(queries: Iterable[Query]) -> str:
    """Digest of a query set in its order."""
    return of_json([_asked(query) for query in queries])


def _asked(query: Query) -> list[Any]:
    fields = [query.query_id, query.text, list(query.slices), query.intent]
    if query.drawn:
        return [*fields, dict(query.params), list(query.drawn)]
    return [*fields, dict(query.params)] if query.params else fields
