"""Which code this is: the source of the harness and of the engines, by one digest."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import engines
import harness
from harness.core.digest import of_files
from harness.core.durable.strays import is_stray

"""Packages of the harness that a verdict comes from."""


@cache
def code_sha256() -> str:
    """Digest of the source of ``harness`` and ``engines``, arms included, read once a process.

    The settings, policies and data sets of an installed package do not count: they lie outside of
    both in a clone.
    """
    folders = [Path(package.__path__[0]) for package in (harness, engines)]
    found = ((f, path) for f in folders for kind in ("*.py", "*.toml") for path in f.rglob(kind))
    files = [path for folder, path in found if not is_stray(path.relative_to(folder))]
    packaged = Path(harness.__path__[0]) / "packaged"
    return of_files([path for path in files if packaged not in path.parents])
