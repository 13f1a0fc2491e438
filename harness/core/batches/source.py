"""Which code a process runs: a worker of a cluster may have another version."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from harness.core.digest import of_file, of_json

PACKAGES = ("harness", "engines")


@cache
def code_sha256() -> str:
    """Digest of the source of this project as this process finds it."""
    found = {}
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(place).rglob("*.py"):
                found[f"{package}/{path.relative_to(place)}"] = of_file(path)
    return of_json(found)
