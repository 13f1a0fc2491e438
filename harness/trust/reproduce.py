"""What this machine's results have in common with the recorded ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from shutil import copyfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.errors import BadFile
from harness.core.files import replacing, replacing_folder, write_json
from harness.core.formats import json_file
from harness.core.run import Run
from harness.corpus.parquet import table_of
from harness.corpus.runs import read_run, score_columns
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import RECORD, outputs, versions
from harness.replay.machine import processor, vector_flags

ABOUT, SCORES, FIRST, FINDINGS = "about.json", "scores.parquet", "first.parquet", "findings.json"
FIRST_HITS = 10
REPRODUCE_HINT = "Bring it back from git, or record anew: harness reproduce --record"
DIGEST_BYTES = 4
TOLD = pa.schema([("arm", pa.string()), ("query_id", pa.string()), ("told", pa.int64())])


@dataclass(frozen=True, slots=True)
class LargestDifference:
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
    moved: tuple[LargestDifference, ...]
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
    try:
        about, findings = json_file(folder / ABOUT), json_file(folder / FINDINGS)
    except OSError as exc:
        raise BadFile(folder, f"cannot be read ({exc.strerror})", REPRODUCE_HINT) from exc
    now = json_file(layout.findings)
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
    for row in table_of(path, TOLD).to_pylist():
        then.setdefault(row["arm"], {})[row["query_id"]] = row["told"]
    for arm, told in then.items():
        now = _first(layout, arm) if layout.run(arm).is_file() else {}
        both = told.keys() | now.keys()
        yield arm, (sum(told.get(query) != now.get(query) for query in both), len(both))


def _values(path: Path) -> dict[tuple[str, str, str], float]:
    """Value by measure, arm and query."""
    return {
        (row["measure"], row["arm"], row["query_id"]): row["value"]
        for row in table_of(path, score_columns(["arm"]), ("value", "undefined")).to_pylist()
        if row["value"] is not None
    }


def _moved(
    then: Mapping[tuple[str, str, str], float], now: Mapping[tuple[str, str, str], float]
) -> Iterator[LargestDifference]:
    """Return the largest difference of each measure; a value that only one has counts from 0."""
    largest: dict[str, LargestDifference] = {}
    for key in sorted(then.keys() | now.keys()):
        measure, arm, query_id = key
        moved = LargestDifference(measure, arm, query_id, then.get(key, 0.0), now.get(key, 0.0))
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
