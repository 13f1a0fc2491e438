"""What DVC recorded of the pipeline, and the vectors that are kept beside the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.engine import KeepsVectors, VectorAgreement
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import LEFT_OVER, held, write_text
from harness.core.folders import is_stray
from harness.core.formats import yaml_file
from harness.core.reading import text_of
from harness.corpus.prepared import Prepared
from harness.pipeline.layout import Layout
from harness_engines import registry as arms

LOCK = "dvc.lock"
MAX_LOCK_BYTES = 1 << 19
"""Eight times that of the demo; what is read for longer than some seconds is not a record."""
LOCK_HINT = "Bring it back (git, dvc checkout), or make and record it anew: harness demo --record"
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
    """Return where this machine's own ``dvc.lock`` lies, which ``harness demo`` keeps."""
    return root / ".dvc" / "tmp" / LOCK


def outputs(root: Path, dataset: str) -> tuple[tuple[str, str, bool], ...]:
    """Stage, path and whether it is as recorded, of each output that the tracked record names."""
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
        raise BadFile(lock, f"is not what DVC writes ({exc!r})", LOCK_HINT) from exc


def _is(path: Path, md5: str) -> bool:
    return path.exists() and _md5(path) == md5


def check_recorded(root: Path, dataset: str) -> tuple[Path, ...]:
    """Check all files of ``dataset`` against this machine's ``dvc.lock``, else the tracked one.

    Gives the files; none where missing file, or it does not name the data set.
    """
    lock = mine if (mine := local(root)).is_file() else root / LOCK
    if not lock.exists():
        return ()
    found: dict[Path, str] = {}
    try:
        for name, entry, md5 in _entries(yaml_file(lock, most=MAX_LOCK_BYTES)["stages"], dataset):
            if found.setdefault(root / entry, md5) != md5:
                problem = f"stage {name} speaks of another {entry} than an earlier one"
                raise BadFile(lock, problem, LOCK_HINT)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(lock, f"is not what DVC writes ({exc!r})", LOCK_HINT) from exc
    for path, md5 in found.items():
        if not path.exists():
            raise EvidenceError(f"{path}: is gone, and {lock} records it. {LOCK_HINT}")
        if _md5(path) != md5:
            raise EvidenceError(f"{path}: is not what {lock} records. {LOCK_HINT}")
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
    """Return whether the path is one of the data set's; ``mail`` is not ``mail-2``."""
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
    """Return whether DVC passes a file over, as ``.dvcignore`` says."""
    hidden = name.name.startswith(".") and name.name.endswith(BESIDE)
    return hidden or is_stray(name) or any(part.endswith(LEFT_OVER) for part in name.parts)


@contextmanager
def local_lock(root: Path) -> Iterator[None]:
    """Run DVC on this machine's ``dvc.lock``, and restore the tracked one afterwards.

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


RECORD = Path("reports") / "record"
"""Tracked, below the project: a folder a data set."""
VECTORS = Path("reports") / "vectors"
"""Tracked, below the project: a file a model."""


def keep_vectors(root: Path, layout: Layout, names: Iterable[str], cache: Path) -> None:
    """Write the vectors of a data set's documents and queries, for arms that have some."""
    data = Prepared.open(layout.data)
    queries = [query.text for query in data.queries()]
    for name in names:
        engine = arms.load(name, cache).engine
        if isinstance(engine, KeepsVectors):
            engine.keep_vectors(data.documents(), queries, root / VECTORS)


def take_vectors(root: Path, layout: Layout, name: str, cache: Path) -> VectorAgreement | None:
    """Use the vectors of the record for an arm, if fresh ones of a sample agree.

    None where the record has nothing for this arm.
    """
    folder = root / VECTORS
    engine = arms.load(name, cache).engine
    if not folder.is_dir() or not isinstance(engine, KeepsVectors):
        return None
    data = Prepared.open(layout.data)
    queries = [query.text for query in data.queries()]
    return engine.take_vectors(data.documents(), queries, folder)
