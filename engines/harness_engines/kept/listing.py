"""The files of a folder as its file system tells of them; it is listed before each query."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import category

from harness.core.errors import BadFile

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

TAGS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
"""A folder that holds one is an environment of Python or a cache: no documents."""
HIDDEN = "__pycache__"
COPIES = frozenset({
    "node_modules", "bower_components", "site-packages", "third_party", "vendored", "_vendor",
})  # fmt: skip
"""Folders of copies of what others wrote."""
MADE = frozenset({"build", "dist", "target", "vendor", "_build", "htmlcov"})
"""Folders that tools write, where one of ``PROJECT`` is beside them."""
PROJECT = frozenset({
    ".git", "pyproject.toml", "setup.py", "package.json", "Cargo.toml", "go.mod", "pom.xml",
    "build.gradle", "build.gradle.kts", "CMakeLists.txt", "composer.json", "Gemfile", "conf.py",
})  # fmt: skip
IGNORE, MOST_IGNORE = ".gitignore", 1 << 20
"""A file of patterns, and bytes of it that are read."""
NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories that are in no name that is read: controls, halves of pairs, ends of lines."""


class UnreadFile(NamedTuple):
    """A file that cannot be read, or a folder, and why."""

    path: str
    """Below the folder, on one line."""
    why: str


class FileStat(NamedTuple):
    """A file as the file system tells of it; nothing of it was read."""

    path: str
    """Below the folder, with forward slashes."""
    size: int
    mtime_ns: int
    ctime_ns: int
    """When its content, its name or its rights changed; no program can set it."""


class FolderListing(NamedTuple):
    """What a folder holds of the kinds that are read."""

    files: tuple[FileStat, ...]
    """By path."""
    unnamed: tuple[UnreadFile, ...]
    """Files and folders that are left out for their names, which are escaped here."""
    left_out: tuple[str, ...] = ()
    """Output of tools, copies of others' work and what is ignored; folders end with a slash."""


class _Rules(NamedTuple):
    """The patterns of a file ``.gitignore`` above what is listed, and those further above."""

    spec: GitIgnoreSpec
    at: str
    """Folder of the file below the one that is listed; where it is above that, the way down."""
    is_above: bool
    above: _Rules | None

    def ignores(self, path: str) -> bool:
        """Return whether a path is ignored; the nearest file that names it decides."""
        own = f"{self.at}{path}" if self.is_above else path.removeprefix(self.at)
        said = self.spec.check_file(own).include
        if said is None:
            return self.above is not None and self.above.ignores(path)
        return said


def check(root: Path) -> None:
    """Refuse what is not a folder."""
    if not root.is_dir():
        raise BadFile(root, "is not a folder", "Give the folder that holds the files")


def listed(root: Path, suffixes: frozenset[str], *, everything: bool = False) -> FolderListing:
    """List the regular files below ``root`` with one of ``suffixes``, in lower case.

    Links are not followed, and hidden files and folders are left out. Unless ``everything`` is
    wanted, so is what tools wrote or copied, and what a file ``.gitignore`` names.
    """
    check(root)
    try:
        walk = _Walk(suffixes, everything)
        walk.below(root)
    except OSError as exc:
        named = exc.filename or root
        hint = "Look at its rights, or move it out of the folder"
        raise BadFile(named, f"cannot be listed ({exc.strerror})", hint) from exc
    files, unnamed, left_out = sorted(walk.files), sorted(walk.unnamed), sorted(walk.left_out)
    return FolderListing(tuple(files), tuple(unnamed), tuple(left_out))


@dataclass(frozen=True, slots=True)
class _Walk:
    """Lists in no order; it runs before each query, so it looks at names without paths."""

    suffixes: frozenset[str]
    everything: bool
    files: list[FileStat] = field(default_factory=list)
    unnamed: list[UnreadFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def below(self, root: Path) -> None:
        """Take in all that is below a folder."""
        with os.scandir(root) as entries:
            rules = None if self.everything else _above(root)
            folders = [("", list(entries), rules)]
        while folders:
            prefix, within, rules = folders.pop()
            names = {entry.name for entry in within}
            if not self.everything:
                if prefix and not TAGS.isdisjoint(names):
                    self.left_out.append(prefix)
                    continue
                if IGNORE in names:
                    rules = _rules(Path(root, prefix, IGNORE), prefix, rules)
            is_project = not PROJECT.isdisjoint(names)
            for entry in within:
                if entry.name.startswith(".") or entry.name == HIDDEN:
                    continue
                with suppress(FileNotFoundError, NotADirectoryError):
                    if self._is_taken(entry, prefix, rules, is_project=is_project):
                        with os.scandir(entry.path) as entries:
                            folders.append((f"{prefix}{entry.name}/", list(entries), rules))

    def _is_taken(
        self, entry: os.DirEntry[str], prefix: str, rules: _Rules | None, *, is_project: bool
    ) -> bool:
        """Take in a file; tell whether the entry is a folder that is looked into."""
        name, path = entry.name, f"{prefix}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder:
            is_read = name[name.rfind(".") :].lower() in self.suffixes
            if not (is_read and entry.is_file(follow_symlinks=False)):
                return False
        elif not self.everything and (name in COPIES or (is_project and name in MADE)):
            self.left_out.append(f"{path}/")
            return False
        if not _is_text(name):
            if not (is_folder and Path(entry.path, "pyvenv.cfg").is_file()):
                self.unnamed.append(_unnamed(prefix, name, is_folder=is_folder))
            return False
        if rules is not None and rules.ignores(f"{path}/" if is_folder else path):
            self.left_out.append(f"{path}/" if is_folder else path)
            return False
        if not is_folder:
            about = entry.stat(follow_symlinks=False)
            if S_ISREG(about.st_mode):  # it may have become another thing
                times = about.st_mtime_ns, about.st_ctime_ns
                self.files.append(FileStat(path, about.st_size, *times))
        return is_folder


def _above(root: Path) -> _Rules | None:
    """Read the patterns above a folder, up to that of its repository; none where they ignore it."""
    whole = root.resolve()
    repository = next((one for one in whole.parents if (one / ".git").exists()), None)
    if repository is None or (whole / ".git").exists():
        return None
    rules: _Rules | None = None
    for folder in reversed([one for one in whole.parents if one.is_relative_to(repository)]):
        down = f"{whole.relative_to(folder).as_posix()}/"
        rules = _rules(folder / IGNORE, down, rules, is_above=True)
    return None if rules is not None and rules.ignores("") else rules


def _rules(path: Path, at: str, above: _Rules | None, *, is_above: bool = False) -> _Rules | None:
    """Read a file of patterns; one that cannot be read has none, and so has a line of it."""
    try:
        with path.open("rb") as file:
            lines = file.read(MOST_IGNORE).decode("utf-8", "replace").splitlines()
    except OSError:
        return above
    from pathspec import GitIgnoreSpec  # a folder without such a file does not wait for it

    whole = []
    for line in lines:
        with suppress(ValueError):
            GitIgnoreSpec.from_lines([line])
            whole.append(line)
    return _Rules(GitIgnoreSpec.from_lines(whole), at, is_above, above)


def _is_text(name: str) -> bool:
    """Return whether a name is characters, also unseen ones and spaces of any width, on a line."""
    return name.isprintable() or not any(category(one) in NO_NAME for one in name)


def _unnamed(prefix: str, name: str, *, is_folder: bool) -> UnreadFile:
    """Name what is left out for its name, and say why."""
    foreign = any("\udc80" <= one <= "\udcff" for one in name)  # bytes that are not UTF-8
    what = "is not UTF-8" if foreign else "holds the end of a line, or a control character"
    end, remedy = ("/", "Rename the folder to read it") if is_folder else ("", "Rename it")
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    shown = "".join(ascii(one)[1:-1] if category(one) in NO_NAME else one for one in text)
    return UnreadFile(f"{prefix}{shown}{end}", f"its name {what}. {remedy}")
