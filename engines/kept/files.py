"""The files of a folder that a stack reads, in a stable order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from harness.core.errors import BadFile

ENVIRONMENT = "pyvenv.cfg"
"""A folder that holds it is a Python environment: installed code, not documents."""
SKIPPED = frozenset({"__pycache__", "node_modules"})


class Seen(NamedTuple):
    """A file as the file system tells of it; nothing of it was read."""

    path: str
    """Below the folder, with forward slashes."""
    size: int
    mtime_ns: int


def seen(root: Path, suffixes: frozenset[str]) -> Iterator[Seen]:
    """List the regular files below ``root`` with one of ``suffixes``, in lower case, by path.

    Links are not followed. Hidden files and folders are left out, and so are environments of
    Python, ``node_modules`` and ``__pycache__``.

    Raises:
        BadFile: ``root`` is not a folder, or cannot be listed.
    """
    if not root.is_dir():
        raise BadFile(root, "is not a folder", "Give the folder that holds the files")
    try:
        yield from sorted(_below(root, suffixes))
    except OSError as exc:
        named = exc.filename or root
        hint = "Look at its rights, or move it out of the folder"
        raise BadFile(named, f"cannot be listed ({exc.strerror})", hint) from exc


def _below(root: Path, suffixes: frozenset[str]) -> list[Seen]:
    """List in no order; it runs before each query, so it looks at names without paths."""
    listed: list[Seen] = []
    folders = [(str(root), "")]
    while folders:
        folder, prefix = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or name in SKIPPED or not _is_text(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not Path(entry.path, ENVIRONMENT).is_file():
                        folders.append((entry.path, f"{prefix}{name}/"))
                elif name[name.rfind(".") :].lower() in suffixes:
                    about = entry.stat(follow_symlinks=False)
                    if S_ISREG(about.st_mode):
                        listed.append(Seen(f"{prefix}{name}", about.st_size, about.st_mtime_ns))
    return listed


def _is_text(name: str) -> bool:
    """Tell whether a name is characters; halves of pairs, which are none, are not printable."""
    return name.isprintable()
