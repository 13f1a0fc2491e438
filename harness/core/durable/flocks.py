"""Lock files: claimed by flock, which the system gives back however a process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def claimed(path: Path, flags: int) -> int | None:
    """Open a lock file and lock it; None where another holds it or it is gone by then."""
    lock = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine, there = os.fstat(lock), path.lstat()
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
        return lock
    os.close(lock)
    return None


def let_go(lock: int) -> None:
    """Give up what ``claimed`` gave, also for a process that was forked meanwhile."""
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)
