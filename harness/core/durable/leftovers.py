"""Where a file is written before it has its name: a hidden folder, locked while its writer lives.

It is named ``.<token>.partial``: no process number is in it, since containers share those.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from harness.core.durable.flocks import claimed, let_go

LEFT_OVER = ".partial"
"""How the name of what is being written ends."""
OLD = ".old"
"""In the folder: what is being replaced, where that takes two steps."""
_TOKEN_BYTES = 8
_TEMPORARY = re.compile(rf"\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}{re.escape(LEFT_OVER)}")
"""How a folder of ours is named; it has a lock in it, or is empty still."""
_LOCK = ".lock"
_TRIES = 3
"""How often a removal that a signal broke off is begun."""


@contextmanager
def written_in(folder: Path) -> Iterator[Path]:
    """Give a new folder in ``folder``, locked while the block runs and removed after it."""
    sweep(folder)
    lock = None
    while lock is None:
        place = folder / f".{token_hex(_TOKEN_BYTES)}{LEFT_OVER}"
        place.mkdir()
        try:
            lock = claimed(place / _LOCK, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            continue
        except OSError:
            _surely_removed(place)
            raise
    try:
        yield place
    finally:
        _surely_removed(place)
        let_go(lock)


def sweep(folder: Path) -> None:
    """Remove what dead writers left in ``folder``; what a living one writes is locked, and stays.

    An old folder that half a replacement moved away is put back first.
    """
    with os.scandir(folder) as entries:
        left = [Path(e.path) for e in entries if _TEMPORARY.fullmatch(e.name)]
    for path in left:
        with suppress(OSError):
            _swept(path)


def _swept(left: Path) -> None:
    """Remove what is ours beyond doubt; a link or a file of such a name is somebody else's."""
    if left.is_symlink() or not left.is_dir():
        return
    if not os.access(left, os.X_OK) or not (left / _LOCK).exists():
        left.rmdir()
    elif (lock := claimed(left / _LOCK, os.O_RDWR)) is not None:
        try:
            _removed(left)
        finally:
            let_go(lock)


def _surely_removed(place: Path) -> None:
    """Remove a temporary folder if it can be; over a network a signal may break that off.

    One that a mask of permissions closed to its user too is empty, and goes all the same.
    """
    for _ in range(_TRIES):
        try:
            _removed(place)
        except InterruptedError:
            continue
        except OSError:
            break
        else:
            return
    with suppress(OSError):
        place.rmdir()


def _removed(place: Path) -> None:
    """Remove a temporary folder, its lock last, putting an old folder back that lost its place."""
    old = place / OLD
    within = [one for one in place.iterdir() if one.name != _LOCK]
    for new in within:
        if new != old and old.exists() and not (lost := place.with_name(new.name)).exists():
            old.replace(lost)
    for one in [one for one in within if one.exists() or one.is_symlink()]:
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()
    (place / _LOCK).unlink(missing_ok=True)
    place.rmdir()
