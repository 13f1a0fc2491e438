"""What lies in the folders that are served: pages by their known names, and pools.

A request names a key of a table, never a path: what is not in the table does not exist.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BadFile

HTML, TEXT, JSON = "text/html", "text/plain", "application/json"
LOAD = "load.html"
PAGES = {
    "index.html": "report",
    "explore.html": "query by query",
    "trends.html": "over time",
    LOAD: "under load",
    "shadow.html": "live comparison",
}
"""Pages for people, in the order in which they are listed, and what they are called there."""
BESIDE = {
    "report.md": TEXT,
    "decision.json": JSON,
    "shadow.json": JSON,
    "scores.json": JSON,
    "junit.xml": TEXT,
}
"""Files beside a page, and as what they are sent: XML as text, so that no browser acts on it."""
INSIDE = {"work", "runs"}
"""Folders that a run keeps for itself."""
LOADED = "work/perf"
"""Where a run keeps its load, whose page its report leads to; the one thing that is shown of it."""
DEPTH = 3
"""How far below a named folder is looked."""
TEXTS = ".jsonl"
"""How the name of the file beside a pool ends."""
HINT = (
    "Name a folder with reports, make one (harness run --out FOLDER, or the demo), or write a"
    " pool into it (harness pool)"
)


class Folder(NamedTuple):
    """A folder that is served."""

    label: str
    """How requests name it."""
    root: Path
    """Absolute, without links."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One file that may be requested."""

    key: str
    """The folder's label and the path below it, with slashes."""
    path: Path
    changed_ns: int
    signature: str
    """Other whenever the file was replaced or changed."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def folder(self) -> str:
        """Key of the folder that it belongs to: the run's for the page of its load."""
        return self.key.rpartition("/")[0].removesuffix(f"/{LOADED}")

    @property
    def media_type(self) -> str:
        return BESIDE.get(self.name, HTML)

    def content(self) -> bytes | None:
        """Read the file; None where it is gone, or became a link that leads elsewhere."""
        try:
            if self.path.resolve() != self.path:
                return None
            opened = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
            with open(opened, "rb") as file:  # noqa: PTH123  by its number, not by its name
                return file.read()
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Shelf:
    """All files that may be requested at one moment, by key."""

    sheets: Mapping[str, Sheet]
    pools: Mapping[str, Sheet]


def folders(paths: Sequence[Path]) -> tuple[Folder, ...]:
    """Give every folder its label: its name, with a number where two have one name.

    Raises:
        BadFile: one is not a folder, or holds nothing to show.
    """
    found: dict[str, Folder] = {}
    for path in paths:
        root = path.resolve()
        if not root.is_dir():
            raise BadFile(path, "is not a folder", HINT)
        names = (root.name if at == 1 else f"{root.name}-{at}" for at in count(1))
        label = next(name for name in names if name not in found)
        found[label] = Folder(label, root)
        held = look((found[label],))
        if not held.pools and not any(sheet.name in PAGES for sheet in held.sheets.values()):
            raise BadFile(path, "holds no page and no pool", HINT)
    return tuple(found.values())


def look(served: Sequence[Folder]) -> Shelf:
    """Look what is there now. Links are left out, and so is all whose name begins with a dot."""
    sheets, pools = {}, {}
    for folder in served:
        found = {sheet.key: sheet for sheet in _files(folder, folder.root, DEPTH)}
        for key, sheet in found.items():
            if sheet.name in PAGES or sheet.name in BESIDE:
                sheets[key] = sheet
            elif f"{key}{TEXTS}" in found:
                pools[key] = sheet
    return Shelf(sheets, pools)


def _files(folder: Folder, within: Path, depth: int) -> Iterator[Sheet]:
    """Yield the files below a folder; what vanishes meanwhile is not there."""
    try:
        listed = sorted(os.scandir(within), key=lambda one: one.name)
    except OSError:
        return
    for one in listed:
        if one.name.startswith(".") or not _is_text(one.name):
            continue
        if one.is_dir(follow_symlinks=False):
            if depth and one.name not in INSIDE:
                yield from _files(folder, Path(one.path), depth - 1)
        elif sheet := _sheet(folder, Path(one.path)):
            yield sheet
    load = within / LOADED / LOAD
    if load.parent.resolve() == load.parent and (sheet := _sheet(folder, load)):
        yield sheet


def _is_text(name: str) -> bool:
    """Tell whether a name can stand in an address: bytes that are not UTF-8 are surrogates here."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _sheet(folder: Folder, path: Path) -> Sheet | None:
    """Give a file; None where there is none, or a link, a pipe or a folder."""
    try:
        about = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    key = f"{folder.label}/{path.relative_to(folder.root).as_posix()}"
    signature = f"{about.st_mtime_ns}-{about.st_size}-{about.st_ino}"
    return Sheet(key, path, about.st_mtime_ns, signature)
