"""Whether the files of a Tantivy index are whole: opening one reads little of them.

Tantivy ends each file with its CRC-32, and checks none when it opens an index; a garbled file
would make it panic, or answer wrongly, at some later query.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.formats import json_file, json_of

META = "meta.json"
SUFFIXES = ("fast", "fieldnorm", "idx", "pos", "store", "term")
"""Every segment has one of each."""
CHUNK_BYTES = 1 << 20
_TAIL = struct.Struct("<II")
_MAGIC = 1337


class Segment(NamedTuple):
    """A part of an index; ``documents`` counts deleted ones too."""

    name: str
    documents: int
    deletes: str | None
    """The file that says which are deleted."""


class Seen(NamedTuple):
    """A file as it was when it was checked."""

    name: str
    size: int
    changed_ns: int


def check(index: Path, known: frozenset[Seen]) -> frozenset[Seen]:
    """Check the files of the last commit in the folder ``index``; ``known`` ones are not re-read.

    Raises:
        ValueError: one is cut short or altered, or ``meta.json`` cannot be read.
        OSError: one is missing or unreadable.
    """
    found: set[Seen] = set()
    for name in _names(segments(index)):
        path = index / name
        status = path.stat()
        seen = Seen(name, status.st_size, status.st_mtime_ns)
        if seen not in known:
            _check_one(path)
        found.add(seen)
    return frozenset(found)


def segments(index: Path) -> tuple[Segment, ...]:
    """List the parts of the last commit in the folder ``index``, in the order of a searcher.

    Raises:
        ValueError: ``meta.json`` cannot be read.
        OSError: it is missing or unreadable.
    """
    meta = json_file(index / META)
    try:
        return tuple(_segment(found) for found in meta["segments"])
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"{index / META}: not the list of an index ({exc!r})") from exc


class Mapped:
    """Files that are mapped, held open: their length is known without looking for their names."""

    def __init__(self, index: Path, files: Iterable[Seen]) -> None:
        """Open ``files`` of the folder ``index``.

        Raises:
            OSError: one is missing or unreadable.
        """
        self._lengths: dict[int, int] = {}
        weakref.finalize(self, _close, self._lengths)
        for one in files:
            self._lengths[os.open(index / one.name, os.O_RDONLY)] = one.size

    def whole(self) -> bool:
        """Tell whether each is as long as it was; every query asks it.

        To read a mapped file beyond its end kills the process (SIGBUS).
        """
        return [os.lseek(file, 0, os.SEEK_END) for file in self._lengths] == [
            *self._lengths.values()
        ]


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


def sweep(index: Path) -> None:
    """Remove lists of deleted documents that no commit names; the caller holds the writer.

    A writer that was killed before its commit leaves them, and Tantivy would give the next one the
    same name and refuse to write it.

    Raises:
        ValueError, OSError: as ``segments``; or a file cannot be removed.
    """
    named = {one.deletes for one in segments(index)}
    for path in index.glob("*.del"):
        if path.name not in named:
            path.unlink()


def _segment(found: Mapping[str, Any]) -> Segment:
    name, deletes = found["segment_id"].replace("-", ""), found["deletes"]
    removed = None if deletes is None else f"{name}.{deletes['opstamp']}.del"
    return Segment(name, found["max_doc"], removed)


def _names(found: Iterable[Segment]) -> Iterator[str]:
    for segment in found:
        yield from (f"{segment.name}.{suffix}" for suffix in SUFFIXES)
        if segment.deletes is not None:
            yield segment.deletes


def _check_one(path: Path) -> None:
    """Compare a file's bytes with the CRC-32 in its footer: JSON, its length, a magic number."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL.size))
        tail = file.read()
        length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (size, 0)
        body = size - _TAIL.size - length
        if magic != _MAGIC or body < 0:
            raise ValueError(f"{path}: cut short")
        file.seek(body)
        wanted = json_of(file.read(length).decode("utf-8"))["crc"]
        file.seek(0)
        crc = 0
        while left := body - file.tell():
            crc = zlib.crc32(file.read(min(CHUNK_BYTES, left)), crc)
    if crc != wanted:
        raise ValueError(f"{path}: its bytes were altered")
