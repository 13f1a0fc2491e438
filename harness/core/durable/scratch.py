"""Temporary folders that only their user can read; what a killed process left is removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

from harness.core.durable.leftovers import written_in
from harness.core.errors import HarnessError

OTHERS = 0o077
"""Permissions of anyone else."""


def place() -> Path:
    """Give the folder of all temporary folders of this user, made where it is missing.

    Raises:
        HarnessError: something of that name belongs to another user, or others may enter it.
    """
    folder = Path(gettempdir()) / f"harness-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & OTHERS
    if not private or found.st_uid != os.getuid():
        raise HarnessError(
            f"{folder}: is not a folder that only you can read. Remove it, or set TMPDIR"
        )
    return folder


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a new, empty folder for the block and remove it afterwards.

    What killed processes left is removed first: the folder of a living one is locked.

    Raises:
        HarnessError: as ``place``.
    """
    with written_in(place()) as locked:
        made = locked / "files"
        made.mkdir()
        yield made
