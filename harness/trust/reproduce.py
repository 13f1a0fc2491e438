"""What this machine's results have in common with the recorded ones."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from shutil import copyfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engines import registry as arms
from harness.core import digest
from harness.core.engine import Agreement, KeepsVectors
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import LEFT_OVER, held, replacing, replacing_folder, write_json, write_text
from harness.core.folders import is_stray
from harness.core.formats import json_file, yaml_file
from harness.core.reading import text_of
from harness.core.run import Run
from harness.corpus.parquet import table_of
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run, score_columns
from harness.pipeline.layout import Layout
from harness.pipeline.provenance import versions
from harness.replay.machine import processor, vector_flags

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


def take_vectors(root: Path, layout: Layout, name: str, cache: Path) -> Agreement | None:
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


RECORD = Path("reports") / "record"
"""Tracked, below the project: a folder a data set."""
ABOUT, SCORES, FIRST, FINDINGS = "about.json", "scores.parquet", "first.parquet", "findings.json"
FIRST_HITS = 10
REPRODUCE_HINT = "Bring it back from git, or record anew: harness reproduce --record"
DIGEST_BYTES = 4


TOLD = pa.schema([("arm", pa.string()), ("query_id", pa.string()), ("told", pa.int64())])


@dataclass(frozen=True, slots=True)
class Moved:
    """The largest difference of one measure between the record and this machine."""

    measure: str
    arm: str
    query_id: str
    recorded: float
    found: float

    @property
    def difference(self) -> float:
        """Found minus recorded."""
        return self.found - self.recorded


@dataclass(frozen=True, slots=True)
class Reproduced:
    """How one data set's results compare with its record."""

    dataset: str
    compared: int
    """Outputs of the pipeline that the record knows."""
    differ: tuple[str, ...]
    """``stage: path`` of each output with other bytes, in the order of the pipeline."""
    first_hits: Mapping[str, tuple[int, int]]
    """By arm: queries whose first ten hits differ, and queries compared."""
    moved: tuple[Moved, ...]
    """The largest difference of each measure that has one."""
    decisions: tuple[str, ...]
    """Each step or untimed gate whose verdict differs, in words; empty where all are equal."""
    environment: tuple[str, ...]
    """What of processor, packages and SQLite differs from where the record was made."""

    @property
    def exact(self) -> bool:
        """Whether every output is byte-identical."""
        return not self.differ


def record(root: Path, layout: Layout, arms: tuple[str, ...]) -> Path:
    """Write what a later comparison needs into the tracked folder, and give that folder."""
    folder = root / RECORD / layout.root.name
    with replacing_folder(folder) as beside:
        write_json(beside / ABOUT, _environment())
        copyfile(layout.per_query, beside / SCORES)
        copyfile(layout.findings, beside / FINDINGS)
        rows = [
            (arm, query_id, told) for arm in arms for query_id, told in _first(layout, arm).items()
        ]
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        with replacing(beside / FIRST) as part:
            pq.write_table(pa.table(columns, TOLD.names), part, compression="zstd")
    return folder


def reproduce(root: Path, layout: Layout) -> Reproduced:
    """Compare the files below ``layout`` with the project's record of the data set."""
    folder, name = root / RECORD / layout.root.name, layout.root.name
    about, findings = (
        _json(folder / ABOUT, REPRODUCE_HINT),
        _json(folder / FINDINGS, REPRODUCE_HINT),
    )
    now = _json(layout.findings, "Run: harness demo")
    known = outputs(root, name)
    return Reproduced(
        dataset=name,
        compared=len(known),
        differ=tuple(f"{stage}: {path}" for stage, path, same in known if not same),
        first_hits=dict(_first_hits(folder / FIRST, layout)),
        moved=tuple(_moved(_values(folder / SCORES), _values(layout.per_query))),
        decisions=tuple(_decisions(findings, now)),
        environment=tuple(_differs(about, _environment())),
    )


def _environment() -> dict[str, Any]:
    return {
        "processor": processor(),
        "processor features": list(vector_flags()),
        "sqlite": sqlite3.sqlite_version,
        "packages": versions(),
    }


def _differs(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Name what differs; the processor's name alone moves no bit, its features may."""
    old, new = set(then["processor features"]), set(now["processor features"])
    if old != new:
        lacks, has = ", ".join(sorted(old - new)), ", ".join(sorted(new - old))
        yield "processor features: " + "; ".join(
            part for part in (lacks and f"here without {lacks}", has and f"here with {has}") if part
        )
    if then["sqlite"] != now["sqlite"]:
        yield f"SQLite {then['sqlite']} when recorded, {now['sqlite']} here"
    for name, was in then["packages"].items():
        if (here := now["packages"].get(name)) != was:
            yield f"{name} {was} when recorded, {here} here"


def _first(layout: Layout, arm: str) -> dict[str, int]:
    """Digest of the first ten hits of each query, of four bytes."""
    run: Run = read_run(layout.run(arm))
    return {
        query_id: int.from_bytes(
            blake2b("\n".join(ids).encode(), digest_size=DIGEST_BYTES).digest(), "big"
        )
        for query_id, ids in run.rankings(run.query_ids, FIRST_HITS).items()
    }


def _first_hits(path: Path, layout: Layout) -> Iterator[tuple[str, tuple[int, int]]]:
    then: dict[str, dict[str, int]] = {}
    for row in _rows(path, TOLD):
        then.setdefault(row["arm"], {})[row["query_id"]] = row["told"]
    for arm, told in then.items():
        now = _first(layout, arm) if layout.run(arm).is_file() else {}
        both = told.keys() | now.keys()
        yield arm, (sum(told.get(query) != now.get(query) for query in both), len(both))


def _values(path: Path) -> dict[tuple[str, str, str], float]:
    """Value by measure, arm and query."""
    return {
        (row["measure"], row["arm"], row["query_id"]): row["value"]
        for row in _rows(path, score_columns(["arm"]), ("value", "undefined"))
        if row["value"] is not None
    }


def _moved(
    then: Mapping[tuple[str, str, str], float], now: Mapping[tuple[str, str, str], float]
) -> Iterator[Moved]:
    """Return the largest difference of each measure; a value that only one has counts from 0."""
    largest: dict[str, Moved] = {}
    for key in sorted(then.keys() | now.keys()):
        measure, arm, query_id = key
        moved = Moved(measure, arm, query_id, then.get(key, 0.0), now.get(key, 0.0))
        if abs(moved.difference) > (abs(largest[measure].difference) if measure in largest else 0):
            largest[measure] = moved
    yield from largest.values()


def _decisions(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Compare the verdict of every gate that rests on no clock, step by step."""
    old, new = _verdicts(then), _verdicts(now)
    for key in dict.fromkeys((*old, *new)):
        was, here = old.get(key, "not judged"), new.get(key, "not judged")
        if was != here:
            yield f"{key}: {was} when recorded, {here} here"


def _verdicts(findings: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"step {step['step']}, gate {found['gate']}": found["verdict"]
        for step in findings["steps"]
        for found in step["findings"]
        if not found["timed"]
    }


def _rows(path: Path, wanted: pa.Schema, nullable: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = table_of(path, wanted, nullable).to_pylist()
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", REPRODUCE_HINT) from exc
    return rows


def _json(path: Path, hint: str) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json_file(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", hint) from exc
    return read
