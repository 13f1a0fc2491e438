"""What a disk refused, whichever library was told: it is full, it cannot be written, or it fails.

Python, SQLite, NumPy and libraries in Rust each say it in their own way, and few name the file.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

from harness.core.durable.leftovers import LEFT_OVER
from harness.core.errors import BadFile

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK = FULL | {errno.EIO, errno.EROFS}
"""What a disk answers to a write; ``FULL`` where it has no room."""
NO_ROOM = "Free some space on that disk, then run the same command again"
READ_ONLY = "Name a place on a disk that can be written, or make this one writable"
FAILING = "Check that disk and any limit of a file's size, then run the same command again"
REMEDIES = {**dict.fromkeys(FULL, NO_ROOM), errno.EROFS: READ_ONLY, errno.EIO: FAILING}
ROOM = 1 << 20
"""Bytes that are left on a disk with room; SQLite calls a full one a failing one at times."""
PRIMARY = 0xFF
"""The part of SQLite's code that says what kind of error it is."""
BY_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}
BY_WORDS = re.compile(r"(?:\(os error |\bOs \{ code: |\[Errno )(\d+)")
"""How Rust says it, and ``shutil`` of files of a folder."""
BY_NUMPY = re.compile(r"^\d+ requested and \d+ written$")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file that a disk refused: a failed write(2) does not say which one it was.

    Errors that name another file, or that come of no refusal, are not changed.

    Raises:
        OSError: with ``path`` and the number of the disk's answer.
    """
    try:
        yield
    except Exception as exc:
        told = refusal(exc) or _not_made(exc, path)
        named = isinstance(exc, BadFile) or (told and told.filename and not _passing(told.filename))
        if told is None or named:
            raise
        number = told.errno or errno.EIO
        if number == errno.EIO and not _has_room(path):
            number = errno.ENOSPC
        place = path
        if number in FULL and not told.filename and _has_room(path) and not _has_room(temporary()):
            place = temporary()
        raise OSError(number, os.strerror(number), str(place)) from exc


def temporary() -> Path:
    """Give the folder that SQLite and others sort in; they do not say that it is full."""
    return Path(gettempdir())


def refusal(exc: BaseException) -> OSError | None:
    """Give the disk's answer that an error comes of; None where it comes of another cause."""
    found = (_as_os_error(one) for one in _causes(exc))
    return next((one for one in found if one.errno in DISK), None)


def _causes(exc: BaseException) -> Iterator[BaseException]:
    told: BaseException | None = exc
    seen = set[int]()
    while told is not None and id(told) not in seen:
        seen.add(id(told))
        yield told
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)


def _as_os_error(exc: BaseException) -> OSError:
    if isinstance(exc, sqlite3.Error):
        code = getattr(exc, "sqlite_errorcode", None) or 0
        return OSError(BY_SQLITE.get(code & PRIMARY), str(exc))
    if isinstance(exc, OSError) and exc.errno is not None:
        return exc
    if isinstance(exc, OSError) and BY_NUMPY.match(str(exc)):
        return OSError(errno.ENOSPC, str(exc))
    by_words = BY_WORDS.search(str(exc))
    return OSError(int(by_words[1]) if by_words else None, str(exc))


def _not_made(exc: Exception, path: Path) -> OSError | None:
    """Tell whether SQLite could not make a file because the disk is full; it does not say why."""
    codes = (getattr(one, "sqlite_errorcode", None) or 0 for one in _causes(exc))
    if all(code & PRIMARY != sqlite3.SQLITE_CANTOPEN for code in codes) or _has_room(path):
        return None
    return OSError(errno.ENOSPC, str(exc))


def _passing(named: object) -> bool:
    """Tell whether a file has no lasting name yet: it is written beside its place."""
    return any(part.endswith(LEFT_OVER) for part in Path(str(named)).parts)


def _has_room(path: Path) -> bool:
    """Tell whether the disk of a path, or of the nearest folder above it, has room."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    about = os.statvfs(there)
    return about.f_bavail * about.f_frsize >= ROOM
