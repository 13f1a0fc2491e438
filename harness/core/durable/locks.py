"""One writer at a time: a lock file beside a thing, held by flock and not by a process number."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from harness.core.durable.flocks import claimed, let_go
from harness.core.durable.leftovers import sweep
from harness.core.errors import BadFile, Locked
from harness.core.paths import check_leads

PATIENCE_S = 600.0
"""How long a writer waits for another one."""
PAUSE_S = 0.002, 0.05
"""First and longest pause before the lock is tried again."""


@contextmanager
def held(thing: Path, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold ``thing`` alone while the block runs; every other writer waits, on any thread.

    Hold it around everything that is read, changed and written. ``thing`` is a file or folder that
    need not exist; the lock lies beside it, so that replacing the thing does not lose the lock.
    The system lets go when the process ends, however it ends, and what a dead writer left in the
    folder is swept. A lock is not given twice: what runs inside must not hold the thing again.

    Raises:
        Locked: another writer held it for longer than ``patience_s``.
        BadFile: it is the root of the file system, beside which there is nothing, or leads nowhere.
        OSError: no lock file can be made there.
    """
    check_leads(thing)
    whole = thing.resolve()
    if not whole.name:
        raise BadFile(thing, "is the root of the file system", "Name a file or a folder in it")
    whole.parent.mkdir(parents=True, exist_ok=True)
    path = whole.with_name(f".{whole.name}.lock")
    until, pause = monotonic() + patience_s, PAUSE_S[0]
    while (lock := _tried(path)) is None:
        if monotonic() >= until:
            raise Locked(thing, patience_s)
        sleep(pause)
        pause = min(2 * pause, PAUSE_S[1])
    try:
        sweep(path.parent)
        yield
    finally:
        if _empty(lock):
            with suppress(OSError):
                path.unlink()
        let_go(lock)


def _tried(path: Path) -> int | None:
    return claimed(path, os.O_RDWR | os.O_CREAT)


def _empty(lock: int) -> bool:
    """Tell whether it is a file without content, as ours are; another one is somebody else's."""
    found = os.fstat(lock)
    return stat.S_ISREG(found.st_mode) and not found.st_size
