"""Which code a process runs, by one digest: results are of it, and workers may have another."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from harness.core.durable.strays import is_stray
from harness.core.reading import whole

PACKAGES = ("harness", "engines")
KINDS = ("*.py", "*.toml")
PACKAGED = "packaged"
"""Folder of an installed package that holds settings, policies and data sets beside the code."""


@cache
def code_sha256() -> str:
    """Digest of the source of ``harness`` and ``engines``, arms included, read once a process.

    The settings, policies and data sets of an installed package do not count: they lie outside of
    both in a clone.
    """
    found = hashlib.sha256()
    for name, path in sorted(_named()):
        source = whole(path)
        found.update(f"{name}\\0{len(source)}\\0".encode())
        found.update(source)
    return found.hexdigest()


def _named() -> list[tuple[str, Path]]:
    """List the files with their names from the package on."""
    return [
        (f"{package}/{below.as_posix()}", path)
        for package in PACKAGES
        if (spec := find_spec(package))
        for place in map(Path, spec.submodule_search_locations or ())
        for kind in KINDS
        for path in place.rglob(kind)
        if not is_stray(below := path.relative_to(place)) and below.parts[0] != PACKAGED
    ]
