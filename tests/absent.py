"""Which test files need a slice that was deleted: they are not collected."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harness.core.parts import has

TESTS = Path(__file__).resolve().parent
SLICES = (
    "clicks", "judge", "load", "logs", "migrate", "serve", "services", "shadow", "trust", "tune",
)  # fmt: skip
"""Folders below ``harness`` that nothing else rests on."""
WHOLE = frozenset({"test_pipeline.py", "test_reference.py"})
"""Files about the code as a whole: they need every slice."""


@cache
def absent() -> frozenset[str]:
    """Name the slices that are not there; usually none."""
    return frozenset(name for name in SLICES if not has(name))


@cache
def needs_absent(path: Path) -> bool:
    """Return whether a file or a folder of tests imports, when it is read, what is not there."""
    if path.is_dir():
        conftest = path / "conftest.py"
        return path.name in absent() or (conftest.is_file() and needs_absent(conftest))
    return path.name in WHOLE or any(_lacks(module) for module in _imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _lacks(module: str) -> bool:
    parts = module.split(".")
    if parts[0] == "harness" and absent().intersection(parts[1:2]):
        return True
    follow = parts[0] in {"tests", "benchmarks"} or (
        parts[0] == "harness" and bool(set(SLICES).intersection(parts[1:2]))
    )
    file = TESTS.parent.joinpath(*parts).with_suffix(".py")
    return follow and file.is_file() and needs_absent(file)
