"""The times of a race as a file: one row a call, and what surrounded them in its metadata.

The file holds all that a gate on time needs (docs/method.md, "The file of times"): another program
can read it and come to the same verdicts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.evidence import Stolen
from harness.core.files import replacing
from harness.core.formats import json_of
from harness.core.reading import Malformed
from harness.corpus.parquet import table_of
from harness.replay.machine import machine, usable_cores
from harness.replay.race import Lap

FORMAT = "4"
COLUMNS = pa.schema([
    ("process", pa.int32()),
    ("arm", pa.string()),
    ("query_id", pa.string()),
    ("repetition", pa.int32()),
    ("turn", pa.int32()),
    ("elapsed_ns", pa.int64()),
    ("waited_ns", pa.int64()),
    ("cpu_ns", pa.int64()),
    ("preempted", pa.int64()),
])
Column = NDArray[Any]


class Part(NamedTuple):
    """What one process left."""

    calls: pa.Table
    about: Mapping[str, Any]
    """Its number, when it began, the reference work, its surroundings, and answers gone astray."""


def started() -> float:
    """Tell when this process began, in seconds; with its number it is told from every other."""
    return float(psutil.Process().create_time())


def write_part(path: Path, lap: Lap, process: int, began_at: str, order: str = "") -> None:
    """Write what one process measured; ``order`` is what its variants were drawn by."""
    rows = [
        (process, *call[:-1], call.taken.waited_ns, call.taken.cpu_ns, call.taken.preempted)
        for call in lap.calls
    ]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, COLUMNS.names).cast(COLUMNS)
    about = {
        "process": process,
        "pid": os.getpid(),
        "started": started(),
        "began_at": began_at,
        "order": order,
        "cores": usable_cores(),
        "counts": lap.counts,
        "beside_ns": dict(lap.beside_ns),
        "reference_ns": list(lap.reference_ns),
        "surroundings": lap.surroundings._asdict(),
        "strays": {arm: list(ids) for arm, ids in lap.strays.items() if ids},
    }
    _write(path, table, {"about": json.dumps(about)})


def read_part(path: Path) -> Part:
    """Read what ``write_part`` wrote.

    Raises:
        Malformed: it is not a part of a race.
    """
    table = table_of(path, COLUMNS)
    try:
        return Part(table, json_of((table.schema.metadata or {})[b"about"].decode()))
    except KeyError:
        raise Malformed("no part of a race") from None


def write_times(path: Path, parts: Sequence[Part], queries: Sequence[str], receipt: str) -> None:
    """Put the parts of one race together; ``receipt`` is the digest of what was raced."""
    about = {
        "format": FORMAT,
        "machine": machine(),
        "raced_at": min(str(part.about["began_at"]) for part in parts),
        "queries": json.dumps(list(queries)),
        "processes": json.dumps([dict(part.about) for part in parts]),
        "receipt_sha256": receipt,
    }
    _write(path, pa.concat_tables([part.calls for part in parts]), about)


def _write(path: Path, table: pa.Table, about: Mapping[str, str]) -> None:
    with replacing(path) as beside:
        pq.write_table(table.replace_schema_metadata(dict(about)), beside, compression="zstd")


class Times(NamedTuple):
    """What a file of times says."""

    columns: Mapping[str, Column]
    """Each of shape (calls,)."""
    about: Mapping[str, str]
    processes: Sequence[Mapping[str, Any]]
    queries: tuple[str, ...]

    def of(self, arm: str, column: str, repetition: int) -> NDArray[np.int64]:
        """Give a column of an arm by process and query, shape (processes, queries).

        Raises:
            EvidenceError: an answer is missing or is there twice, or two processes have the same
                times.
        """
        mine = (self.columns["arm"] == arm) & (self.columns["repetition"] == repetition)
        asked, rows = self.columns["query_id"][mine], self.columns["process"][mine]
        column_of = {query_id: at for at, query_id in enumerate(self.queries)}
        queries = len(set(asked.tolist())) if repetition else len(self.queries)
        cells = rows * len(self.queries) + np.array([column_of[q] for q in asked], dtype=np.int64)
        wanted = np.arange(len(self.processes))[:, None] * len(self.queries) + np.arange(queries)
        if len(cells) != wanted.size or set(cells.tolist()) != set(wanted.ravel().tolist()):
            raise EvidenceError(
                f"{arm}: not every process has a time of every query; run: harness race"
            )
        found = self.columns[column][mine][np.argsort(cells)].reshape(wanted.shape)
        copied = found.size and len(np.unique(found, axis=0)) < len(found)
        if column == "elapsed_ns" and copied:
            raise EvidenceError(
                f"{arm}: two processes have the same times, so one is a copy; run: harness race"
            )
        return np.asarray(found, dtype=np.int64)

    def lost_ns(self, arm: str) -> NDArray[np.int64]:
        """Give what each first answer of an arm lost by waiting, at most, as ``of`` does.

        A wait is counted from shortly before a call to shortly after it, and for every thread. So
        a call lost no more than its time without the processor time of as many threads as can run.
        """
        elapsed, waited, cpu = (
            self.of(arm, name, 0) for name in ("elapsed_ns", "waited_ns", "cpu_ns")
        )
        cores = np.array([process["cores"] for process in self.processes])[:, None]
        return np.clip(waited, 0, np.maximum(elapsed - cpu // cores, 0))

    def stolen(self, arm: str) -> Stolen:
        """Sum up what the system took from the first answers of an arm, over all processes."""
        first = {
            name: self.of(arm, name, 0).astype(np.float64)
            for name in ("elapsed_ns", "waited_ns", "cpu_ns", "preempted")
        }
        wall = first["elapsed_ns"].sum()
        around = [process["surroundings"] for process in self.processes]
        beside = sum(process["beside_ns"][arm] for process in self.processes)
        worked = self.columns["cpu_ns"][self.columns["arm"] == arm].sum()
        shares = {
            name: float(np.mean([one[name] for one in around]))
            for name in ("others", "steal", "throttled")
        }
        return Stolen(
            waited=float(first["waited_ns"].sum() / wall),
            preempted=float(first["preempted"].mean()),
            worked=float(first["cpu_ns"].sum() / wall),
            beside=float(beside / max(worked, 1)),
            **shares,
        )


def read_times(path: Path) -> Times:
    """Read what ``write_times`` wrote.

    Raises:
        Malformed: it is not a file of times, or one of another format.
    """
    table = table_of(path, COLUMNS)
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if about.get("format") != FORMAT or table.schema.names != COLUMNS.names:
        raise Malformed(f"the times are not of format {FORMAT}")
    try:
        processes, queries = json_of(about["processes"]), tuple(json_of(about["queries"]))
    except (KeyError, TypeError) as exc:
        raise Malformed(f"it does not say of which processes and queries it is ({exc!r})") from exc
    return Times({n: table.column(n).to_numpy() for n in COLUMNS.names}, about, processes, queries)
