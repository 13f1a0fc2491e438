"""What an index asks of a stack that keeps a folder, and what an update tells."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Reader(Protocol):
    """What a stack makes of files; it keeps that in tables of its own."""

    @property
    def suffixes(self) -> frozenset[str]:
        """Endings of the files that it reads, with their dot, in lower case."""
        ...

    @property
    def biggest(self) -> int:
        """Bytes of a file; a bigger one is refused by name."""
        ...

    @property
    def identity(self) -> str:
        """All that its tables depend on beside the files; another one begins anew."""
        ...

    @property
    def models(self) -> str:
        """What ``complete`` depends on: the models that are there; empty without any."""
        ...

    @property
    def tables(self) -> str:
        """SQL that makes its tables."""
        ...

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> None:
        """Take a file in.

        Raises:
            BadFile: it cannot be read; nothing of it is kept. Of any other error the index names
                the kind.
        """
        ...

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        """Give up what was made of a file."""
        ...

    def complete(self, db: sqlite3.Connection) -> None:
        """Make what ``models`` have not made once all files are in, such as vectors."""
        ...


class Fault(NamedTuple):
    """A file that cannot be read, or a folder, and why."""

    path: str
    """Below the folder, on one line."""
    why: str


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update did; no file is counted twice in what is read, unchanged or in ``faults``."""

    read: int
    removed: int
    unchanged: int
    faults: tuple[Fault, ...]
    """Of all files of the folder, those that cannot be found, by path."""
    refused: int = 0
    """Those among them that this update looked at."""

    @property
    def is_change(self) -> bool:
        """Tell whether the index changed."""
        return bool(self.read or self.removed or self.refused)
