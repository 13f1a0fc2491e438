"""A folder that is made once for a run of the tests, whichever process of it asks first."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

WORKER = "popen-gw"
"""How the folder of a process begins that pytest-xdist started; it lies in that of the run."""


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Give the folder ``name`` that all processes of this run share, made by ``make``.

    Nothing is there yet when ``make`` gets the path. Who asks while another makes it waits. What
    failed half way is made again by who asks next.
    """
    base = factory.getbasetemp()
    shared = base.parent if base.name.startswith(WORKER) else base
    folder, done = shared / "once" / name, shared / "once" / f"{name}.done"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder
