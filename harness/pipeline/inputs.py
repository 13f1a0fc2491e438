"""What the answers of a run rest on, recorded beside it, and what of that changed."""

from __future__ import annotations

import platform
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict

from harness.core.engine import Manifest
from harness.core.store import Artifact, Json

FILE = "inputs.json"
NAMED = 4
"""Most files and packages that are named of each kind."""
SETTINGS = frozenset({
    ".cfg",
    ".env",
    ".ini",
    ".json",
    ".lock",
    ".properties",
    ".toml",
    ".xml",
    ".yaml",
    ".yml",
})
TEXTS = frozenset({".md", ".rst", ".txt"})
DATA, CODE, SET, OTHER = "data", "code", "settings", "other files"


class RunInputs(BaseModel):
    """What lies around a run, by digest or version."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    commit: str
    """Of the repository; empty without git."""
    files: dict[str, str]
    """Digest of each file that git tracks or would track, from the root; empty without git."""
    packages: dict[str, str]
    python: str

    @classmethod
    def around(cls, folder: Path) -> RunInputs:
        """Record the repository around a folder, and what is installed; ``folder`` is left out."""
        return cls(
            commit=git(folder, "rev-parse", "HEAD").strip(),
            files=_files(folder),
            packages=dict(sorted((one.metadata["Name"], one.version) for one in distributions())),
            python=platform.python_version(),
        )

    def since(self, before: RunInputs, data: str) -> tuple[str, ...]:
        """Describe what differs, by kind; ``data`` is the folder of the data, from the root."""
        kinds: dict[str, list[str]] = defaultdict(list)
        for name in _other(before.files, self.files):
            kinds[_kind(name, data)].append(name)
        found = [
            f"{kind}: {_some(kinds[kind])}" for kind in (CODE, SET, DATA, OTHER) if kinds[kind]
        ]
        moved = [
            f"{name} {before.packages.get(name, 'absent')} → {self.packages.get(name, 'absent')}"
            for name in _other(before.packages, self.packages)
        ]
        found += [f"packages: {_some(moved)}"] if moved else []
        if before.python != self.python:
            found.append(f"Python {before.python} → {self.python}")
        return tuple(found)


INPUTS: Artifact[RunInputs] = Json(
    "a record of inputs", RunInputs, remedy="Run harness ci there again."
)


def index_changes(before: Manifest, now: Manifest) -> str:
    """Describe how the index of an arm differs; empty where it does not."""
    fields = {
        "engine": "engine",
        "version": "code of the engine",
        "settings_sha256": "settings",
        "corpus_sha256": "documents",
    }
    other = [what for key, what in fields.items() if getattr(before, key) != getattr(now, key)]
    return ", ".join(other)


def git(root: Path, *words: str, given: str = "") -> str:
    """Return what git prints; empty without git, or where it fails."""
    try:
        done = subprocess.run(  # noqa: S603  our own words
            ["git", "-C", str(root), *words],  # noqa: S607  the one on the path
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout if not done.returncode else ""


def _files(folder: Path) -> dict[str, str]:
    """Return the name that git has for the content of each file, by its path, as it is now."""
    root = Path(git(folder, "rev-parse", "--show-toplevel").rstrip("\n") or folder)

    def listed(*kinds: str) -> list[str]:
        return [one for one in git(root, "ls-files", "-z", *kinds).split("\0") if one]

    tracked = (line.partition("\t") for line in listed("-s"))
    found = {name: about.split()[1] for about, _, name in tracked}
    for name in listed("-d"):
        found.pop(name, None)
    own = folder.resolve()
    other = sorted({
        name
        for name in listed("-m", "-o", "--exclude-standard")
        if "\n" not in name and "__pycache__/" not in name and (root / name).is_file()
        if not (root / name).resolve().is_relative_to(own)
    })
    given = "".join(f"{name}\n" for name in other)
    digests = git(root, "hash-object", "--stdin-paths", given=given).split()
    return dict(sorted({**found, **dict(zip(other, digests, strict=False))}.items()))


def _other(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _kind(name: str, data: str) -> str:
    path = PurePosixPath(name)
    if data and path.is_relative_to(data):
        return DATA
    if path.suffix in SETTINGS or path.name.startswith("requirements"):
        return SET
    return OTHER if path.suffix in TEXTS else CODE


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more
