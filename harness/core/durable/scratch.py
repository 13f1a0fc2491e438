"""Temporary folders that only their user can read; what a killed process left is removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

from harness.core.disk import DISK, naming
from harness.core.durable.leftovers import written_in
from harness.core.errors import BadFile, HarnessError

OWN, OTHERS = 0o700, 0o077
"""Permissions of the user, which a mask may have taken from a new folder, and of anyone else."""
REMEDY = "Free some space there, or set TMPDIR to a folder with room"


def place() -> Path:
    """Give the folder of all temporary folders of this user, made where it is missing.

    Raises:
        HarnessError: something of that name belongs to another user, or others may enter it. Or no
            folder takes temporary files.
    """
    folder = above() / f"harness-{os.getuid()}"
    with told(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and OWN & ~found.st_mode:
        folder.chmod(OWN | stat.S_IMODE(found.st_mode))
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & OTHERS
    if not private or found.st_uid != os.getuid():
        raise HarnessError(
            f"{folder}: is not a folder that only you can read. Remove it, or set TMPDIR"
        )
    return folder


def above() -> Path:
    """Give the system's folder for temporary files: TMPDIR, or the next one that takes a file.

    Raises:
        HarnessError: there is none.
    """
    try:
        return Path(gettempdir())
    except FileNotFoundError as exc:
        raise HarnessError(f"no folder takes temporary files ({exc.strerror}). {REMEDY}") from exc


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Say of a temporary folder that a disk refused that it is one, and what to do.

    Raises:
        BadFile: the disk has no room for what is written in ``folder``, cannot be written or fails.
    """
    try:
        with naming(folder):
            yield
    except OSError as exc:
        if exc.errno not in DISK or exc.filename != str(folder):
            raise
        problem = f"temporary files cannot be written there ({exc.strerror})"
        raise BadFile(folder, problem, REMEDY) from exc


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a new, empty folder for the block and remove it afterwards.

    What killed processes left is removed first: the folder of a living one is locked.

    Raises:
        HarnessError: as ``place``.
        BadFile: as ``told``, also of what is written within the block.
    """
    folder = place()
    with told(folder), written_in(folder) as locked:
        made = locked / "files"
        made.mkdir()
        yield made
