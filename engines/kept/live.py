"""A folder as it is now: brought up to date before a query, opened anew only where it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from sqlite3 import Connection
from threading import Lock
from typing import Generic, TypeVar

from engines.kept import index
from engines.kept.contract import Reader, Updated

Opened = TypeVar("Opened")
Opener = Callable[[Connection], AbstractContextManager[Opened]]


class Live(Generic[Opened]):
    """One folder, one index, one stack; a query at a time."""

    def __init__(self, root: Path, place: Path, reader: Reader, opener: Opener[Opened]) -> None:
        """Follow ``root`` with the index in ``place``; ``opener`` makes what answers."""
        self._root, self._place, self._reader, self._opener = root, place, reader, opener
        self._lock, self._open, self._state = Lock(), ExitStack(), ""
        self._now: Opened | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Endings of the files that are read, in order."""
        return tuple(sorted(self._reader.suffixes))

    @property
    def is_indexed(self) -> bool:
        """Tell whether an index of the folder is there."""
        return (self._place / index.FILE).is_file()

    def close(self) -> None:
        """Let go of the index."""
        self._open.close()
        self._now = None

    @contextmanager
    def now(self, *, follow: bool = True) -> Iterator[tuple[Opened, Updated | None]]:
        """Give what answers for the folder as it is; with ``follow`` off, as it was indexed.

        Raises:
            BadFile: the folder is gone.
            IndexNotReady: nothing is indexed, and ``follow`` is off.
        """
        with self._lock:
            done = index.update(self._root, self._place, self._reader) if follow else None
            with index.reading(self._place) as db:
                state = index.generation(db)
            if self._now is None or state != self._state:
                self.close()
                db = self._open.enter_context(index.reading(self._place))
                self._now = self._open.enter_context(self._opener(db))
                self._state = state
            yield self._now, done
