"""Folders that a command owns, and changes of several files."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import translate
from pathlib import Path, PurePath
from typing import Any

from harness.core import digest
from harness.core.errors import BadFile, HarnessError
from harness.core.files import held, remove, sweep, write_json, write_text
from harness.core.formats import json_file

STRAYS = (
    ".DS_Store", "._*", ".Spotlight-V100", ".Trashes", ".fseventsd", ".directory", "Thumbs.db",
    "desktop.ini", ".*.sw[a-p]", "*~", ".#*", "[#]*[#]", ".nfs*", ".idea", ".vscode",
    ".ipynb_checkpoints", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    "__pycache__",
)  # fmt: skip
_STRAY = re.compile("|".join(map(translate, STRAYS)))


def is_stray(path: PurePath) -> bool:
    """Return whether a desktop, an editor or a cache left a file; its path is relative."""
    return any(map(_STRAY.match, path.parts))


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
MAIL = "harness mail"
COMPARISON = "harness compare"
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
    """Make ``folder`` one of ``owner``: it is there afterwards, and bears the mark."""
    check_free(folder, owner, reads=reads, known=known)
    set_mark(folder, owner, project)


def check_free(
    folder: Path,
    owner: str,
    *,
    reads: Iterable[Path] = (),
    known: Callable[[Path], bool] | None = None,
) -> None:
    """Check that ``owner``, who reads ``reads``, may write into a folder; write nothing."""
    sources = tuple(reads)
    check_apart(folder, sources)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NotOurs(f"{folder}: is a file. {REMEDY}")
    there = [*folder.iterdir()]
    for link in filter(Path.is_symlink, there):
        check_apart(link, sources)
    foreign = sorted(path.name for path in there if not PASSING.fullmatch(path.name))
    if not foreign or mark(folder, owner).is_file() or (known and known(folder)):
        return
    for other in sorted(folder.glob("harness-*.txt")):
        raise NotOurs(f"{folder}: belongs to {other.stem.replace('-', ' ')}. {REMEDY}")
    raise NotOurs(
        f"{folder}: holds what {owner} did not write, for example {foreign[0]}. {REMEDY}."
        f" {_mark_it(folder, owner)}"
    )


def set_mark(folder: Path, owner: str, project: str = "") -> None:
    """Make a folder, where it is not there, and set the mark in it, where it is not set."""
    if not mark(folder, owner).is_file():
        of = f" in the project {project}" if project else ""
        said = f"{owner}{of} made this folder, and replaces what it wrote here."
        write_text(mark(folder.resolve(), owner), f"{said}\nKeep files of your own elsewhere.\n")


def check_held(folder: Path, owner: str) -> None:
    """Check that a folder has the mark of ``owner``: a command adds to what that one left."""
    if not mark(folder, owner).is_file():
        problem = f"bears no mark of {owner}, so nothing is written"
        raise NotOurs(f"{folder}: {problem}. {_mark_it(folder, owner)}")


def check_new(
    file: Path, *, reads: Iterable[Path] = (), ours: Callable[[Path], bool] | None = None
) -> None:
    """Check that a file is absent, or may be replaced by ``ours``."""
    check_apart(file, reads)
    if file.is_dir():
        raise NotOurs(f"{file}: is a folder. Name a file in it")
    if (file.exists() or file.is_symlink()) and not (ours and ours(file)):
        raise NotOurs(f"{file}: already exists. Choose another file, or delete it")


def check_apart(to: Path, reads: Iterable[Path]) -> None:
    """Check that a place is not, is not in and does not hold what is read; links are followed."""
    try:
        place = to.resolve()
        for path in reads:
            source = path.resolve()
            within = source.is_dir() and place.is_relative_to(source)
            if within or source.is_relative_to(place):
                raise NotOurs(f"{to}: would change {path}, which is read. {REMEDY}")
    except (OSError, RuntimeError) as exc:
        raise NotOurs(f"{to}: cannot be resolved ({exc}). {REMEDY}") from exc


def _mark_it(folder: Path, owner: str) -> str:
    command = shlex.join(["touch", str(mark(folder, owner))])
    return f"If all of it is the work of an earlier {owner}, set its mark: {command}"


HINT = "Look at the files that it names; remove the journal when they are as they should be"


class FileChange:
    """Files that are to change together; the last text that a file is given counts."""

    def __init__(self, thing: Path, within: Sequence[Path], what: str) -> None:
        self._journal = journal_of(thing)
        self._within = [folder.resolve() for folder in within]
        self._what = what
        self._texts: dict[Path, str] = {}
        self.resumed = ""
        """What was cut off and is complete now; empty where nothing was."""

    def write(self, path: Path, text: str) -> None:
        """Return a file its new text; nothing is written yet."""
        whole = path.resolve()
        if not any(whole.is_relative_to(folder) for folder in self._within):
            raise ValueError(f"{path} is in none of the folders of the change")
        self._texts.pop(whole, None)
        self._texts[whole] = text

    def commit(self) -> None:
        """Write every file in its order; a killed process leaves its journal to the next."""
        if self._texts:
            self._note({})
            self._apply()

    def prepare(self, proof: Path, sha256: str) -> None:
        """Write the journal and no file: the change is made once ``proof`` has the digest."""
        self._note({"proof": [os.path.relpath(proof.resolve(), self._journal.parent), sha256]})

    def _note(self, more: Mapping[str, Any]) -> None:
        folder = self._journal.parent
        files = [[os.path.relpath(p, folder), _sha256(p), t] for p, t in self._texts.items()]
        write_json(self._journal, {"what": self._what, "files": files, **more}, durable=True)

    def finish(self) -> None:
        """Complete what another process began; its journal stays until this change ends well."""
        if self._journal.exists():
            self.resumed = self._read()
            self._apply()

    def close(self) -> None:
        """Commit what was not, and forget the journal."""
        self.commit()
        if self._journal.exists():
            remove(self._journal)

    def _apply(self) -> None:
        for path, text in self._texts.items():
            write_text(path, text, durable=True)
        self._texts = {}

    def _read(self) -> str:
        """Take over the files of the journal, and give what it says it is."""
        try:
            told: Any = json_file(self._journal)
            proof, sha256 = told.get("proof", ("", ""))
            if proof and _sha256(self._journal.parent / str(proof)) != sha256:
                return ""
            for name, was, text in told["files"]:
                path = self._journal.parent / str(name)
                if _sha256(path) not in {was, digest.of_bytes(text.encode())}:
                    raise BadFile(self._journal, f"{path} was changed since it was cut off", HINT)
                self.write(path, text)
            return str(told["what"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise BadFile(self._journal, f"it is not a journal of a change ({exc})", HINT) from exc


@contextmanager
def changing(thing: Path, *, within: Sequence[Path], what: str) -> Iterator[FileChange]:
    """Lock ``thing``, complete an earlier change of it, and change files ``within``."""
    with held(thing):
        for folder in filter(Path.is_dir, within):
            sweep(folder)
        change = FileChange(thing, within, what)
        change.finish()
        yield change
        change.close()


def completed(thing: Path, *, within: Sequence[Path]) -> None:
    """Complete a change of ``thing`` that was cut off, if one was; for whoever is to read it."""
    if cut_off(thing):
        with changing(thing, within=within, what=""):
            pass


def journal_of(thing: Path) -> Path:
    """Return where the journal of ``thing`` is while a change of it is under way."""
    whole = thing.resolve()
    return whole.with_name(f".{whole.name}.journal")


def cut_off(thing: Path) -> bool:
    """Whether a change of ``thing`` was cut off, and waits for the next writer to complete it."""
    return journal_of(thing).exists()


def _sha256(path: Path) -> str:
    """Digest of a file; empty where there is none."""
    return digest.of_file(path) if path.exists() else ""
