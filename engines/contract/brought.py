"""Code that an arm brings: a Python file beside its TOML, or a program that it starts.

Such code runs with the rights of whoever types the command (SECURITY.md). With ``HARNESS_NO_CODE``
set, as by ``harness --no-code``, an arm that brings any is refused by name, in this process and in
every one that it starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core import digest, extras
from harness.core.errors import (
    MEMORY_RAN_OUT,
    BadPolicy,
    HarnessError,
    InvalidArm,
    NotInstalled,
)

NO_CODE = "HARNESS_NO_CODE"
"""Variable of the environment; any text but the empty one and 0 sets it."""
SUFFIX = ".py"
PROGRAM = "command"
"""The setting of a stack that names a program to start."""


def allowed() -> bool:
    """Tell whether arms may bring code."""
    return os.environ.get(NO_CODE, "") in {"", "0"}


@contextmanager
def forbidden() -> Iterator[None]:
    """Allow no arm to bring code while the block runs, in processes that it starts too."""
    before = os.environ.get(NO_CODE)
    os.environ[NO_CODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(NO_CODE)
        if before is not None:
            os.environ[NO_CODE] = before


def check_allowed(arm: Path, stack: str, settings: Mapping[str, Any]) -> None:
    """Let an arm pass that brings no code, or where code is allowed.

    Raises:
        InvalidArm: it brings code, and none is allowed.
    """
    program = settings.get(PROGRAM)
    what = str(arm.parent / stack) if stack.endswith(SUFFIX) else f"the program {program}"
    if not allowed() and (stack.endswith(SUFFIX) or program):
        raise InvalidArm(
            f"{arm}: the arm {arm.stem} brings code ({what}), and {NO_CODE} is set. Read that code,"
            " and run the command without --no-code if you trust it"
        )


def module_of(arm: Path, stack: str) -> ModuleType:
    """Import the Python file that an arm names.

    Raises:
        BadPolicy: missing file, or it defines no ``engine``.
        InvalidArm: it cannot be imported.
    """
    file = arm.parent / stack
    name = f"arm_stack_{digest.of_bytes(str(file.resolve()).encode())[:16]}"
    spec = spec_from_file_location(name, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise BadPolicy(arm, f"stack: no file {file}", "Name a Python file beside this one")
    module = sys.modules[name] = module_from_spec(spec)
    with named(arm.stem, f"{file} cannot be imported"):
        spec.loader.exec_module(module)
    if not callable(getattr(module, "engine", None)):
        raise BadPolicy(file, "has no function engine", "Define engine(settings, cache)")
    return module


@contextmanager
def named(
    arm: str,
    what: str,
    *,
    but: type[Exception] = HarnessError,
    only: type[BaseException] = BaseException,
) -> Iterator[None]:
    """Make whatever an engine raises an error that names its arm; its own exit is one too.

    ``but`` is a kind of error that says enough by itself. Of other kinds than ``only`` none is
    changed.

    Raises:
        InvalidArm: the engine raised anything but an error of the harness or an interrupt.
        NotInstalled: it needs a package of an extra.
    """
    try:
        yield
    except (but, HarnessError, KeyboardInterrupt, GeneratorExit):
        raise
    except only as exc:
        if isinstance(exc, ModuleNotFoundError) and (hint := extras.hint(exc)):
            raise NotInstalled(f"{arm}: {what}: {hint}") from exc
        if isinstance(exc, MemoryError):
            raise InvalidArm(f"{arm}: {what}: {MEMORY_RAN_OUT}") from exc
        line = f" (line {exc.lineno})" if isinstance(exc, SyntaxError) else ""
        raise InvalidArm(f"{arm}: {what}: {type(exc).__name__}: {exc}{line}") from exc
