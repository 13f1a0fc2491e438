"""``dvc.lock`` held against the files: what a data set's stages read and wrote when recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.core.errors import BadFile, EvidenceError

LOCK = "dvc.lock"
CURE = "Bring it back (git, dvc checkout), or make and record it anew: harness demo"
READ = ("datasets/", "qrels/")
"""Of what a stage depends on, the data; the code is not evidence."""
FOLDER = ".dir"
"""How DVC marks the digest of a folder."""
LEFT_OVER = ".partial"
"""As in ``.dvcignore``."""


def check_recorded(root: Path, dataset: str) -> tuple[Path, ...]:
    """Hold all files of ``dataset`` that ``dvc.lock`` in ``root`` records, and give them.

    None where there is no such file, or it does not speak of the data set.

    Raises:
        BadFile: it is not what DVC writes.
        EvidenceError: a file or folder is gone or is not the one recorded.
    """
    lock = root / LOCK
    if not lock.is_file():
        return ()
    found: dict[Path, str] = {}
    try:
        for name, entry, md5 in _entries(yaml.safe_load(lock.read_bytes())["stages"], dataset):
            if found.setdefault(root / entry, md5) != md5:
                problem = f"stage {name} speaks of another {entry} than an earlier one"
                raise BadFile(lock, problem, CURE)
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(lock, f"is not what DVC writes ({exc!r})", CURE) from exc
    for path, md5 in found.items():
        if not path.exists():
            raise EvidenceError(f"{path}: is gone, and {lock} records it. {CURE}")
        if _md5(path) != md5:
            raise EvidenceError(f"{path}: is not what {lock} records. {CURE}")
    return tuple(found)


def _entries(stages: dict[str, Any], dataset: str) -> Iterator[tuple[str, str, str]]:
    """Yield stage, path and digest of all data that the stages of one data set read or wrote."""
    for name, stage in stages.items():
        _, _, item = name.partition("@")
        if item == dataset or item.startswith(f"{dataset}-"):
            read = [entry for entry in stage["deps"] if entry["path"].startswith(READ)]
            for entry in (*read, *stage["outs"]):
                if _of(entry["path"], dataset):
                    yield name, entry["path"], entry["md5"]


def _of(path: str, dataset: str) -> bool:
    """Tell whether the path is one of the data set's; ``mail`` is not ``mail-2``."""
    return path.split("/")[1] == dataset


def _md5(path: Path) -> str:
    """Digest as DVC gives it: of a file's bytes, or of the list of a folder's files."""
    if path.is_file():
        return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    files = [p for p in path.rglob("*") if p.is_file() and not p.name.endswith(LEFT_OVER)]
    named = sorted((file.relative_to(path).as_posix(), file) for file in files)
    rows = [{"md5": _md5(file), "relpath": name} for name, file in named]
    text = json.dumps(rows, sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() + FOLDER
