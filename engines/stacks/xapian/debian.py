"""Xapian's Python binding and its programs, as Debian's packages install them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from shutil import which
from threading import Lock
from typing import Any

from harness.core.errors import ModelNotReady

PACKAGES = Path("/usr/lib/python3/dist-packages")
"""Where Debian puts Python packages; an environment of one's own does not look there."""
NAME = "xapian"
SERVER, LEASH = "xapian-tcpsrv", "setpriv"
INSTALL = "Install Xapian: apt install python3-xapian xapian-tools"
_importing = Lock()


def binding() -> Any:  # noqa: ANN401  a module without types
    """Import the binding from this environment, or else from Debian's place.

    Raises:
        ModelNotReady: it is not installed, or was built for another Python.
    """
    with _importing:
        try:
            return import_module(NAME)
        except ModuleNotFoundError as exc:
            if exc.name != NAME:
                raise
        init = PACKAGES / NAME / "__init__.py"
        spec = spec_from_file_location(NAME, init) if init.is_file() else None
        if spec is None or spec.loader is None:
            raise ModelNotReady(f"{init}: missing. {INSTALL}")
        module = module_from_spec(spec)
        sys.modules[NAME] = module
        try:
            spec.loader.exec_module(module)
        except ImportError as exc:
            del sys.modules[NAME]
            raise ModelNotReady(
                f"{init.parent}: built for another Python than this one,"
                f" {sys.version_info.major}.{sys.version_info.minor}. Use the Python of Debian"
            ) from exc
        return module


def program(name: str) -> str:
    """Find a program.

    Raises:
        ModelNotReady: it is not installed.
    """
    if (found := which(name)) is None:
        raise ModelNotReady(f"{name}: not found. {INSTALL}")
    return found
