"""Files that appear whole or not at all: the one layer through which the harness writes.

* ``write_text``, ``write_json``: a whole file, written beside and renamed.
* ``append_text``: a file that only grows, read, added to and written under its lock.
* ``replacing``: the same for whoever writes the file itself (Parquet, NumPy).
* ``replacing_folder``: a whole folder, which changes places with the old one.
* ``durable.locks.held``: around whatever is read, changed and written; one writer at a time.
* ``durable.journal.changing``: the same for several files, which change together or not.

With ``durable=True`` the call returns when file and folder are on the disk (fsync). It is for
acknowledged data that cannot be reproduced: ledger, switch, pools, judgements, history, accepted
divergences, logs. A cache does not need it.

Temporary files are in a hidden folder that its writer keeps locked. Each writer first removes the
leftovers of dead ones (``harness.core.durable.leftovers``).
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.core.disk import naming
from harness.core.durable.leftovers import OLD, written_in
from harness.core.durable.locks import held
from harness.core.paths import check_leads

AT_FDCWD = -100
EXCHANGE = 2
"""RENAME_EXCHANGE of Linux's renameat2(2)."""


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give a path to write to; it becomes ``path`` if the block ends well, else it is removed.

    What is given is whole: of a path that begins with ``~`` pyarrow makes one in the home folder.
    """
    check_leads(path)
    path = path.absolute()
    _make(path.parent, durable=durable)
    with naming(path), written_in(path.parent) as place:
        beside = place / path.name
        yield beside
        if durable:
            _sync(beside)
        beside.replace(path)
        if durable:
            _sync(path.parent)


@contextmanager
def replacing_folder(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give an empty folder to fill; it becomes ``path`` if the block ends well.

    If ``path`` exists, the two change places in one step, so that a reader always finds one of
    them. A file system without that operation needs two steps, and the next writer undoes half a
    step.
    """
    check_leads(path)
    path = path.absolute()
    _make(path.parent, durable=durable)
    with naming(path), written_in(path.parent) as place:
        beside = place / path.name
        beside.mkdir()
        yield beside
        if durable:
            for folder, _, names in os.walk(beside):
                for name in names:
                    _sync(Path(folder, name))
                _sync(Path(folder))
        if not (path.exists() and swapped(beside, path)):
            _two_steps(beside, path)
        if durable:
            _sync(path.parent)


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write ``text`` as UTF-8 with Unix line ends."""
    with replacing(path, durable=durable) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def append_text(path: Path, text: str) -> None:
    """Add ``text`` at the end of a file, on a line of its own, and see it on the disk.

    Writers take turns. A reader finds all of the text or none, even after a kill or a full disk,
    because the whole file is rewritten. So it is for logs of some megabytes at most.
    """
    with held(path):
        before = path.read_bytes() if path.exists() else b""
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        with replacing(path, durable=True) as beside:
            beside.write_bytes(before + gap + text.encode("utf-8"))


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:  # noqa: ANN401  any JSON
    """Write ``value`` with sorted keys; refuses NaN and infinities, which are not JSON."""
    write_text(path, json_text(value), durable=durable)


def json_text(value: Any) -> str:  # noqa: ANN401  whatever json can write
    """Give ``value`` as ``write_json`` writes it."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def remove(path: Path) -> None:
    """Remove a file if it exists, and wait until that is on the disk."""
    path.unlink(missing_ok=True)
    with naming(path):
        _sync(path.parent)


def _two_steps(beside: Path, path: Path) -> None:
    old = beside.with_name(OLD)
    if path.exists():
        beside.stat()
        path.replace(old)
    try:
        beside.replace(path)
    except OSError:
        if old.exists():
            old.replace(path)
        raise


def _make(folder: Path, *, durable: bool) -> None:
    """Make a folder with those above it."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()] if durable else []
    folder.mkdir(parents=True, exist_ok=True)
    with naming(folder):
        for one in missing:
            _sync(one.parent)


def _sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def swapped(one: Path, other: Path) -> bool:
    """Let ``one`` and ``other`` change places; False, and nothing done, where that failed.

    Both must exist on one file system. No reader finds either of them missing at any time.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_FDCWD, paths[0], AT_FDCWD, paths[1], EXCHANGE) == 0)
