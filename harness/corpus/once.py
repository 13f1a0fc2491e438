"""Files that a command reads again and again, parsed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from harness.core import digest
from harness.core.errors import BadFile

_More = TypeVarTuple("_More")
_Parsed = TypeVar("_Parsed")


def parsed_once(
    keep: int,
) -> Callable[[Callable[[Path, *_More], _Parsed]], Callable[[Path, *_More], _Parsed]]:
    """Keep what a reader gave of the last ``keep`` files, by path and digest of the content.

    A file that was changed is read anew. What is given is shared, so no caller may change it.
    """

    def around(read: Callable[[Path, *_More], _Parsed]) -> Callable[[Path, *_More], _Parsed]:
        @lru_cache(maxsize=keep)
        def kept(path: Path, _: str, more: tuple[*_More]) -> _Parsed:
            return read(path, *more)

        @wraps(read)
        def reading(path: Path, *more: *_More) -> _Parsed:
            try:
                sha256 = digest.of_file(path)
            except (OSError, BadFile):
                return read(path, *more)  # which says why the file cannot be read
            return kept(path, sha256, more)

        return reading

    return around
