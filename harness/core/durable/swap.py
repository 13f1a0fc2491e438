"""Exchange two folders in one step, if the system can."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

AT_FDCWD = -100
EXCHANGE = 2
"""RENAME_EXCHANGE of Linux's renameat2(2)."""


def swapped(one: Path, other: Path) -> bool:
    """Let ``one`` and ``other`` change places; False, and nothing done, where that failed.

    Both must exist on one file system. No reader finds either of them missing at any time.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_FDCWD, paths[0], AT_FDCWD, paths[1], EXCHANGE) == 0)
