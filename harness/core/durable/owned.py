"""Folders that a command owns, marked when they are made.

A command writes into a folder that is absent, empty, or bears the mark of the same command: a file
of a known name, whose text is for people. Any other folder is refused before a byte is written. So
is a folder that is, contains or is inside one that the command reads.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.disk import REMEDIES
from harness.core.errors import HarnessError
from harness.core.files import write_text
from harness.core.paths import check_leads

RUN = "harness run"
EXPORT = "harness export"
CONVERT = "harness convert"
EXPERIMENT_LOG = "harness run log"
CLICKS = "harness clicks"
REPORT = "harness report"
HISTORY = "harness history"
MIGRATION = "harness migrate"
SHADOW_LOG = "harness shadow"
SHADOW_REPORT = "harness shadow report"
OWNERS = (
    RUN, EXPERIMENT_LOG, EXPORT, CONVERT, CLICKS, REPORT, HISTORY, MIGRATION, SHADOW_LOG,
    SHADOW_REPORT,
)  # fmt: skip
"""Every command, or group of commands, that marks a folder."""
PASSING = re.compile(r"\..*\.(?:lock|journal|partial)")
"""What writers of ours leave for a while, or when they are killed: it makes no folder foreign."""
REMEDY = "Name a new or empty folder"


class NotOurs(HarnessError):
    """A folder or a file belongs to somebody else, or is read by the command that would write."""


def mark(folder: Path, owner: str) -> Path:
    """Name the file that says that ``owner`` may write into ``folder``."""
    return folder / f"{owner.replace(' ', '-')}.txt"


def claim(
    folder: Path,
    owner: str,
    *,
    reads: Iterable[Path] = (),
    project: str = "",
    known: Callable[[Path], bool] | None = None,
) -> None:
    """Make ``folder`` one of ``owner``: it is there afterwards, and bears the mark.

    Raises:
        NotOurs: as ``check_free``.
        HarnessError: it cannot be made, looked into or written to.
    """
    check_free(folder, owner, reads=reads, known=known)
    set_mark(folder, owner, project)


def check_free(
    folder: Path,
    owner: str,
    *,
    reads: Iterable[Path] = (),
    known: Callable[[Path], bool] | None = None,
) -> None:
    """Let a folder pass that ``owner`` may write into, and write nothing.

    ``reads`` are the files and folders that the command reads. ``known`` recognizes what an earlier
    version of the program, which set no marks, wrote.

    Raises:
        NotOurs: the folder has files that ``owner`` did not write, is not a folder, or is an input.
        HarnessError: it cannot be looked into.
    """
    sources = tuple(reads)
    check_apart(folder, sources)
    with _told(folder):
        for link in filter(Path.is_symlink, folder.iterdir() if folder.is_dir() else ()):
            check_apart(link, sources)
        if folder.exists() and not mark(folder, owner).is_file() and not (known and known(folder)):
            _check_empty(folder, owner)


def set_mark(folder: Path, owner: str, project: str = "") -> None:
    """Make a folder, where it is not there, and set the mark in it, where it is not set.

    Raises:
        HarnessError: it cannot be written to.
    """
    with _told(folder):
        if not mark(folder, owner).is_file():
            of = f" in the project {project}" if project else ""
            said = f"{owner}{of} made this folder, and replaces what it wrote here."
            write_text(
                mark(folder.resolve(), owner), f"{said}\nKeep files of your own elsewhere.\n"
            )


def check_held(folder: Path, owner: str) -> None:
    """Let a folder pass that bears the mark of ``owner``: a command adds to what that one left.

    Raises:
        NotOurs: it does not.
    """
    if not mark(folder, owner).is_file():
        problem = f"bears no mark of {owner}, so nothing is written"
        raise NotOurs(f"{folder}: {problem}. {_mark_it(folder, owner)}")


def check_new(
    file: Path, *, reads: Iterable[Path] = (), ours: Callable[[Path], bool] | None = None
) -> None:
    """Let a file pass that is not there yet, or of which ``ours`` says that it may be replaced.

    Raises:
        NotOurs: it is there, is a folder, or lies in a folder that is read.
    """
    check_apart(file, reads)
    if file.is_dir():
        raise NotOurs(f"{file}: is a folder. Name a file in it")
    if (file.exists() or file.is_symlink()) and not (ours and ours(file)):
        raise NotOurs(f"{file}: is there already. Name another file, or move this one away")


def check_apart(to: Path, reads: Iterable[Path]) -> None:
    """Let a place pass that is not, is not in and is not around anything that is read.

    Links are followed, and a folder that is mounted twice is one. Up from a folder that is not
    there leads nowhere: once it is made, the same path is another place.

    Raises:
        NotOurs: it is, or its links lead in a circle.
        BadFile: it leads nowhere, as ``check_leads`` says.
    """
    try:
        check_leads(to)
        place = to.resolve()
        for path in reads:
            source = path.resolve()
            within = source.is_dir() and _inside(place, source)
            if within or _inside(source, place):
                raise NotOurs(f"{to}: would change {path}, which is read. {REMEDY}")
    except (OSError, RuntimeError) as exc:
        raise NotOurs(f"{to}: leads nowhere ({exc}). {REMEDY}") from exc


def _inside(inner: Path, outer: Path) -> bool:
    """Tell whether ``inner`` is ``outer``, or below it; both are without links."""
    if inner.is_relative_to(outer):
        return True
    there = [place for place in (inner, *inner.parents) if place.exists()]
    return outer.exists() and any(place.samefile(outer) for place in there)


def _check_empty(folder: Path, owner: str) -> None:
    if not folder.is_dir():
        raise NotOurs(f"{folder}: is a file. {REMEDY}")
    names = (path.name for path in folder.iterdir())
    first = min((name for name in names if not PASSING.fullmatch(name)), default=None)
    if first is None:
        return
    for other in OWNERS:
        if mark(folder, other).is_file():
            raise NotOurs(f"{folder}: belongs to {other}. {REMEDY}")
    raise NotOurs(
        f"{folder}: holds what {owner} did not write, for example {first}. {REMEDY}."
        f" {_mark_it(folder, owner)}"
    )


def _mark_it(folder: Path, owner: str) -> str:
    command = shlex.join(["touch", str(mark(folder, owner))])
    return (
        "Folders of earlier versions bear no mark; if all of it is the work of"
        f" {owner}, set it: {command}"
    )


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Make a refusal by the system an error that a person can fix."""
    try:
        yield
    except OSError as exc:
        why = exc.strerror or exc
        remedy = REMEDIES.get(exc.errno or 0, REMEDY)
        raise HarnessError(f"{folder}: cannot be written ({why}). {remedy}") from exc
