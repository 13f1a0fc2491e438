"""The files of a folder as its file system tells of them; it is listed before each query."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple
from unicodedata import category

from engines.kept.contract import Fault
from harness.core.errors import BadFile

ENVIRONMENT = "pyvenv.cfg"
"""A folder that holds it is a Python environment: installed code, not documents."""
SKIPPED = frozenset({"__pycache__", "node_modules"})
NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories that are in no name that is read: controls, halves of pairs, ends of lines."""
BYTES = range(0xDC80, 0xDD00)
"""Characters by which Python writes the bytes of a name that are not UTF-8."""
ASCII = 0x80


class Seen(NamedTuple):
    """A file as the file system tells of it; nothing of it was read."""

    path: str
    """Below the folder, with forward slashes."""
    size: int
    mtime_ns: int
    ctime_ns: int
    """When its content, its name or its rights changed; no program can set it."""


class Listed(NamedTuple):
    """What a folder holds of the kinds that are read."""

    files: tuple[Seen, ...]
    """By path."""
    unnamed: tuple[Fault, ...]
    """Files and folders that are left out for their names, which are escaped here."""


def listed(root: Path, suffixes: frozenset[str]) -> Listed:
    """List the regular files below ``root`` with one of ``suffixes``, in lower case.

    Links are not followed. Hidden files and folders are left out, and so are environments of
    Python, ``node_modules`` and ``__pycache__``.

    Raises:
        BadFile: ``root`` is not a folder, or cannot be listed.
    """
    if not root.is_dir():
        raise BadFile(root, "is not a folder", "Give the folder that holds the files")
    try:
        files, unnamed = _below(root, suffixes)
    except OSError as exc:
        named = exc.filename or root
        hint = "Look at its rights, or move it out of the folder"
        raise BadFile(named, f"cannot be listed ({exc.strerror})", hint) from exc
    return Listed(tuple(sorted(files)), tuple(sorted(unnamed)))


def _below(root: Path, suffixes: frozenset[str]) -> tuple[list[Seen], list[Fault]]:
    """List in no order; it runs before each query, so it looks at names without paths.

    What is removed, or becomes a link, while it is listed is left out.
    """
    files: list[Seen] = []
    unnamed: list[Fault] = []
    with os.scandir(root) as entries:
        folders = [("", list(entries))]
    while folders:
        prefix, within = folders.pop()
        for entry in within:
            name = entry.name
            if name.startswith(".") or name in SKIPPED:
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                is_folder = entry.is_dir(follow_symlinks=False)
                if not _is_read(entry, suffixes, is_folder=is_folder):
                    continue
                if not _is_text(name):
                    unnamed.append(_unnamed(prefix, name, is_folder=is_folder))
                elif is_folder:
                    with os.scandir(entry.path) as entries:
                        folders.append((f"{prefix}{name}/", list(entries)))
                else:
                    about = entry.stat(follow_symlinks=False)
                    if S_ISREG(about.st_mode):  # it may have become another thing
                        times = about.st_mtime_ns, about.st_ctime_ns
                        files.append(Seen(f"{prefix}{name}", about.st_size, *times))
    return files, unnamed


def _is_read(entry: os.DirEntry[str], suffixes: frozenset[str], *, is_folder: bool) -> bool:
    """Tell whether a folder is looked into, or a file is of a kind that is read."""
    if is_folder:
        return not Path(entry.path, ENVIRONMENT).is_file()
    ending = entry.name[entry.name.rfind(".") :].lower()
    return ending in suffixes and entry.is_file(follow_symlinks=False)


def _is_text(name: str) -> bool:
    """Tell whether a name is characters, also unseen ones and spaces of any width, on a line."""
    return name.isprintable() or not any(category(one) in NO_NAME for one in name)


def _unnamed(prefix: str, name: str, *, is_folder: bool) -> Fault:
    """Name what is left out for its name, and say why."""
    foreign = any(ord(one) in BYTES for one in name)
    what = "is not UTF-8" if foreign else "holds the end of a line, or a control character"
    if is_folder:
        return Fault(f"{prefix}{escaped(name)}/", f"its name {what}. Rename the folder to read it")
    return Fault(f"{prefix}{escaped(name)}", f"its name {what}. Rename it")


def escaped(name: str) -> str:
    r"""Write a name on one line: ``\n`` for the end of a line, and ``\xff`` for a byte."""
    return "".join(_escaped(one) if category(one) in NO_NAME else one for one in name)


def _escaped(one: str) -> str:
    code = ord(one)
    if code in BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return one.encode("unicode_escape").decode() if code < ASCII else f"\\u{code:04x}"
