"""``dvc.lock``: compared with the files of the stages, and kept as recorded while DVC runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.durable.leftovers import LEFT_OVER
from harness.core.durable.locks import held
from harness.core.durable.strays import is_stray
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.core.formats import yaml_file
from harness.core.reading import text_of

LOCK = "dvc.lock"
MAX_LOCK_BYTES = 1 << 19
"""Eight times that of the demo; what is read for longer than some seconds is not a record."""
HINT = "Bring it back (git, dvc checkout), or make and record it anew: harness demo --record"
READ = ("datasets/", "qrels/")
"""Of what a stage depends on, the data; the code is not evidence."""
BESIDE = (".lock", ".journal")
"""Of names that begin with a dot: what lies beside a thing while it is changed."""
FOLDER = ".dir"
"""How DVC marks the digest of a folder."""
SAVED = Path(".dvc") / "tmp" / f"{LOCK}.record"
"""The tracked record while DVC works; left behind only by a process that was killed."""

FOREVER_S = float("inf")
"""A second run of the pipeline waits for the first, which may take minutes."""


def local(root: Path) -> Path:
    """Say where this machine's own ``dvc.lock`` lies, which ``harness demo`` keeps."""
    return root / ".dvc" / "tmp" / LOCK


def outputs(root: Path, dataset: str) -> tuple[tuple[str, str, bool], ...]:
    """Stage, path and whether it is as recorded, of each output that the tracked record names.

    Raises:
        BadFile: the record is missing, or it is not what DVC writes.
    """
    lock = root / LOCK
    try:
        stages = yaml_file(lock, most=MAX_LOCK_BYTES)["stages"]
        return tuple(
            (name, entry["path"], _is(root / entry["path"], entry["md5"]))
            for name, stage in stages.items()
            for entry in stage["outs"]
            if _of(entry["path"], dataset)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(lock, f"is not what DVC writes ({exc!r})", HINT) from exc


def _is(path: Path, md5: str) -> bool:
    return path.exists() and _md5(path) == md5


def check_recorded(root: Path, dataset: str) -> tuple[Path, ...]:
    """Check all files of ``dataset`` against this machine's ``dvc.lock``, else the tracked one.

    Gives the files; none where missing file, or it does not name the data set.

    Raises:
        BadFile: it is not what DVC writes.
        EvidenceError: a file or folder is gone or is not the one recorded.
    """
    lock = mine if (mine := local(root)).is_file() else root / LOCK
    if not lock.exists():
        return ()
    found: dict[Path, str] = {}
    try:
        for name, entry, md5 in _entries(yaml_file(lock, most=MAX_LOCK_BYTES)["stages"], dataset):
            if found.setdefault(root / entry, md5) != md5:
                problem = f"stage {name} speaks of another {entry} than an earlier one"
                raise BadFile(lock, problem, HINT)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(lock, f"is not what DVC writes ({exc!r})", HINT) from exc
    for path, md5 in found.items():
        if not path.exists():
            raise EvidenceError(f"{path}: is gone, and {lock} records it. {HINT}")
        if _md5(path) != md5:
            raise EvidenceError(f"{path}: is not what {lock} records. {HINT}")
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
        return digest.of_file(path, "md5")
    files = [(p.relative_to(path), p) for p in path.rglob("*") if p.is_file()]
    named = sorted((name.as_posix(), p) for name, p in files if not _left_over(name))
    rows = [{"md5": _md5(file), "relpath": name} for name, file in named]
    text = json.dumps(rows, sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() + FOLDER


def _left_over(name: Path) -> bool:
    """Tell whether DVC passes a file over, as ``.dvcignore`` says."""
    hidden = name.name.startswith(".") and name.name.endswith(BESIDE)
    return hidden or is_stray(name) or any(part.endswith(LEFT_OVER) for part in name.parts)


@contextmanager
def local_lock(root: Path) -> Iterator[None]:
    """Let DVC work on this machine's ``dvc.lock``, and put the tracked one back afterwards.

    So a run of the pipeline leaves the tracked file as it was, whatever this machine's processor
    and packages made of the numbers. A record that a killed process left aside is put back first.
    """
    tracked, saved, mine = root / LOCK, root / SAVED, local(root)
    with held(mine, patience_s=FOREVER_S):
        if saved.is_file():
            saved.replace(tracked)
        recorded = text_of(tracked) if tracked.is_file() else None
        if recorded is not None:
            write_text(saved, recorded)
        try:
            if mine.is_file():
                write_text(tracked, text_of(mine))
            yield
        finally:
            if tracked.is_file():
                write_text(mine, text_of(tracked))
            if recorded is not None:
                saved.replace(tracked)
