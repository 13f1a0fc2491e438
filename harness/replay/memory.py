"""Memory and disk that an arm takes, in bytes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import psutil

STATUS = Path("/proc/self/status")
PEAK = "VmHWM:"
KIB = 1024


def resident_bytes() -> int:
    """Tell how much memory of this process is resident now, mapped files included."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """Tell the most that was ever resident in this process.

    Linux tells it of the program that runs; ``getrusage`` there also remembers what the process
    was before it became this program, so it serves only where nothing better is.
    """
    if STATUS.is_file():
        for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(PEAK):
                return int(line.split()[1]) * KIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def folder_bytes(folder: Path) -> int:
    """Add up the sizes of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
