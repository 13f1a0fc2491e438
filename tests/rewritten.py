"""Modules are compiled before several processes import them, each module once.

In a fresh clone nothing is compiled, and every process would compile every module by itself: all
come to the same one at the same moment. What cannot be compiled is left to who imports it.
"""

from __future__ import annotations

import compileall
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

PACKAGES = ("harness", "engines", "tests")
TESTS = ("test_*.py", "conftest.py")
"""Modules whose assertions pytest writes anew, and keeps apart."""


def modules(root: Path) -> list[Path]:
    """Name all modules of the project."""
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def compile_all(config: pytest.Config, paths: Sequence[Path], processes: int) -> None:
    """Compile modules by so many processes, where compiled modules are kept at all."""
    if sys.dont_write_bytecode:
        return
    started = []
    for number in range(processes):
        if (child := os.fork()) == 0:
            try:
                for path in paths[number::processes]:
                    _compile(config, path)
            finally:
                os._exit(0)
        started.append(child)
    for child in started:
        os.waitpid(child, 0)


def _compile(config: pytest.Config, path: Path) -> None:
    if not any(path.match(form) for form in TESTS):
        compileall.compile_file(path, quiet=2)
        return
    kept = place(path)
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        try:
            digest, code = rewrite._rewrite_test(path, config)  # noqa: SLF001  it has no public form
        except SyntaxError:
            return
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, kept)  # noqa: SLF001


def place(path: Path) -> Path:
    """Name the file that pytest keeps a compiled module in."""
    return rewrite.get_cache_dir(path) / (path.name.removesuffix(".py") + rewrite.PYC_TAIL)
