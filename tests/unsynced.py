"""In tests no write waits for the disk: a synced file is one that a power cut does not take away.

No test cuts the power. That a file is synced, and before what, is seen by tests that watch
``os.fsync`` or stand below Python's calls (``tests/crash``). ``--all`` waits.
"""

from __future__ import annotations

import os
from typing import Protocol


class HasFileno(Protocol):
    """An open file, with its number."""

    def fileno(self) -> int:
        """Give the number."""


def no_waiting() -> None:
    """Let ``os.fsync`` look only whether the file is open, in this process and its forks."""
    os.fsync = _looked_at


def _looked_at(fd: int | HasFileno) -> None:
    os.fstat(fd if isinstance(fd, int) else fd.fileno())
