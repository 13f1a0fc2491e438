"""Which machine this is, in one line: times from two machines are never compared."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def machine() -> str:
    """Name the processor, its usable cores, the system and the Python."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    system = f"{platform.system()} {platform.machine()}"
    return f"{processor()}, {usable_cores()} cores, {system}, Python {python}"


def usable_cores() -> int:
    """Count the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Name the processor's model as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or "unknown processor"
