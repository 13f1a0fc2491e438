"""Files written beside and renamed, so that a killed process leaves the old one whole."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to; it becomes ``path`` if the block ends well, else it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill; it becomes ``path`` if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    try:
        yield beside
        if path.exists():
            path.replace(old)
        beside.replace(path)
    finally:
        if old.exists() and not path.exists():
            old.replace(path)
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder: whoever else does the same waits, in this process and in others.

    For what is read, changed and written; it is let go when the block or the process ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 with Unix line ends."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401  whatever json can write
    """Write ``value`` with sorted keys; refuses NaN and infinities, which are not JSON."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")
