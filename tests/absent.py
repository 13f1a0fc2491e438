"""Which test files need a slice that was deleted: they are not collected."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from harness.core.parts import has

TESTS = Path(__file__).resolve().parent
SLICES = (
    "clicks", "judge", "load", "logs", "migrate", "serve", "services", "shadow", "tables", "trust",
    "tune",
)  # fmt: skip
"""Folders below ``harness`` that nothing else rests on."""
NAMED = re.compile(r"^(?:from|import) (harness|tests)\.([\w.]+)(?: import (\w+))?", re.MULTILINE)
"""What a file imports when it is read; what a test imports by itself is its own affair."""


@cache
def absent() -> frozenset[str]:
    """Name the slices that are not there; usually none."""
    return frozenset(name for name in SLICES if not has(name))


@cache
def needs_absent(path: Path) -> bool:
    """Return whether a file of tests imports a slice that is not there, or one that does."""
    if path.parent != TESTS and path.relative_to(TESTS).parts[0] in absent():
        return True
    for package, module, name in NAMED.findall(path.read_text(encoding="utf-8")):
        if package == "harness" and module.partition(".")[0] in absent():
            return True
        of = TESTS / module.replace(".", "/")
        files = (of.with_suffix(".py"), of / f"{name}.py", of / "conftest.py")
        if package == "tests" and any(needs_absent(file) for file in files if file.is_file()):
            return True
    return False
