"""Where matplotlib keeps what it found of fonts."""

from __future__ import annotations

import os
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import place

FONTS = "MPLCONFIGDIR"
"""Variable that says where matplotlib keeps its settings, and what it found of fonts."""


def _takes(above: str, usual: str) -> bool:
    """Return whether matplotlib can keep files in the folder of a variable, or in the usual one."""
    try:
        folder = Path(os.environ.get(above) or Path.home() / usual).absolute()
        there = next(one for one in (folder, *folder.parents) if one.exists())
    except (OSError, RuntimeError):
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def settle() -> None:
    """Keep matplotlib's list of fonts elsewhere where a home takes no files.

    Without that it warns, and looks for all fonts anew in each command. It reads the variable when
    it is imported, so a command settles this first.
    """
    homes = ("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache")
    if FONTS in os.environ or all(_takes(*one) for one in homes):
        return
    try:
        os.environ[FONTS] = str(place() / "matplotlib")
    except (OSError, HarnessError):
        return
