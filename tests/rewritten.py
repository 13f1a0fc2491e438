"""Modules are compiled before several processes import them, each module once.

In a fresh clone nothing is compiled, and every process would compile every module by itself: all
come to the same one at the same moment. What cannot be compiled is left to who imports it. Of the
packages that are installed, most modules are never imported, so those that are get imported once.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

PACKAGES = ("harness", "engines", "tests")
TESTS = ("test_*.py", "conftest.py")
"""Modules whose assertions pytest writes anew, and keeps apart."""
IMPORT = re.compile(r"^ *(?:from|import) ([A-Za-z_][\w.]*)", re.MULTILINE)


def modules(root: Path) -> list[Path]:
    """Name all modules of the project."""
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def fresh(paths: Iterable[Path]) -> list[str]:
    """Name modules of installed packages that these import and that nobody has imported yet."""
    names = {name for path in paths for name in IMPORT.findall(path.read_text(encoding="utf-8"))}
    tops = {name.partition(".")[0] for name in names} - {*PACKAGES, *sys.stdlib_module_names}
    new = {top for top in tops if _is_fresh(top)}
    return sorted(name for name in names if name.partition(".")[0] in new)


def compile_all(config: pytest.Config, paths: Sequence[Path], processes: int) -> None:
    """Compile modules by so many processes, where compiled modules are kept at all.

    One more imports what they need of other packages.
    """
    if sys.dont_write_bytecode:
        return
    parts = [paths[number::processes] for number in range(processes)]
    work = [partial(_import_all, fresh(paths)), *(partial(_compile_all, config, p) for p in parts)]
    for child in [_forked(each) for each in work]:
        os.waitpid(child, 0)


def _forked(work: Callable[[], None]) -> int:
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def _compile_all(config: pytest.Config, paths: Iterable[Path]) -> None:
    for path in paths:
        _compile(config, path)


def _is_fresh(top: str) -> bool:
    """Tell whether a package is installed and not compiled."""
    spec = find_spec(top)
    return spec is not None and bool(spec.cached) and not Path(str(spec.cached)).exists()


def _import_all(names: Iterable[str]) -> None:
    """Import modules; what cannot be imported is a matter of the test that needs it."""
    for name in names:
        with contextlib.suppress(Exception):
            import_module(name)


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
