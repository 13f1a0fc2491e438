"""Stage ``race``: time the arms of a migration against each other, in several fresh processes."""

import json
import os
import random
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.core import digest
from harness.core.engine import Answer, Searcher, TakesParams
from harness.core.errors import EvidenceError, MismatchedQueries
from harness.core.evidence import Race, Stolen
from harness.core.files import held, replacing
from harness.core.formats import json_of
from harness.core.names import Clocked
from harness.core.printable import many
from harness.core.progress import progress
from harness.core.reading import Malformed
from harness.core.records import Scalar
from harness.core.store import Artifact
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run, table_of
from harness.pipeline.experiments import note_timed
from harness.pipeline.index import Opener, check_index
from harness.pipeline.layout import Layout, drop_older
from harness.pipeline.params import RaceParams
from harness.pipeline.receipts import check_run, read_manifest
from harness.policy.validity import check_past
from harness.replay.machine import Advance, Work, in_fresh_process, machine, usable_cores
from harness.replay.race import UNSEEN, Expected, Lap, RaceTexts, Words, draw, shown, varied
from harness.replay.race import race as run_race
from harness_engines import registry

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


class ProcessPart(NamedTuple):
    """What one process left."""

    calls: pa.Table
    about: Mapping[str, Any]


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


def read_part(path: Path) -> ProcessPart:
    """Read what ``write_part`` wrote."""
    table = table_of(path, COLUMNS)
    return ProcessPart(table, json_of(table.schema.metadata[b"about"].decode()))


def write_times(
    path: Path, parts: Sequence[ProcessPart], queries: Sequence[str], receipt: str
) -> None:
    """Combine the parts of one race; ``receipt`` is the digest of what was raced."""
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
    about: Mapping[str, str]
    processes: Sequence[Mapping[str, Any]]
    queries: tuple[str, ...]

    def of(self, arm: str, column: str, repetition: int) -> NDArray[np.int64]:
        """Return a column of an arm by process and query, shape (processes, queries)."""
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
        return np.asarray(found, dtype=np.int64)

    def lost_ns(self, arm: str) -> NDArray[np.int64]:
        """Return what each first answer of an arm lost by waiting, at most, as ``of`` does.

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
    """Read what ``write_times`` wrote."""
    table = table_of(path, COLUMNS)
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if about.get("format") != FORMAT or table.schema.names != COLUMNS.names:
        raise Malformed(f"the times are not of format {FORMAT}")
    processes, queries = json_of(about["processes"]), tuple(json_of(about["queries"]))
    return Times({n: table.column(n).to_numpy() for n in COLUMNS.names}, about, processes, queries)


TIMES = Artifact("times of a race", read_times, keep=1)
Run = Callable[[Work, Advance], None]


def race(
    layout: Layout,
    arm_names: Sequence[str],
    cache: Path,
    params: RaceParams,
    time_limit_s: float,
    *,
    run: Run = in_fresh_process,
) -> None:
    """Time every arm in ``params.processes`` processes, one after the other, with new variants.

    A process is the A/A control of the others. An interrupted race goes on with the next one; the
    log notes that a race begins or goes on before it does. Two races take turns.
    """
    loaded = {arm.name: arm for arm in (registry.load(name, cache) for name in arm_names)}
    for name, arm in loaded.items():
        check_run(layout, name)
        check_index(layout, arm)
    data = Prepared.open(layout.data)
    queries = data.queries()
    texts = draw(
        queries,
        data.clusters(),
        timed=params.queries,
        warm=params.warmup,
        repeated=params.repeated,
        seed=params.seed,
    )
    words = Words(data.documents(), data.manifest.documents)
    openers = {name: Opener.of(layout, arm, cache) for name, arm in loaded.items()}
    receipt = _receipt(layout, tuple(loaded), texts, params)
    parts = layout.race_parts / digest.of_json([receipt, machine()])[:32]
    with held(layout.race_parts):
        drop_older(parts, params.resume_hours)
        expected = {name: _expected(layout, name, texts, params.k) for name in loaded}
        done: list[ProcessPart] = []
        resumed = any(parts.glob("*.parquet"))
        kind: Clocked = "race resumed" if resumed else "race begun"
        note_timed(layout, kind, tuple(loaded), datetime.now(UTC))
        for process in range(params.processes):
            order = secrets.token_hex(8)
            part = RacePart(
                openers=openers,
                expected=expected,
                texts=varied(texts, queries, words, order),
                order=order,
                k=params.k,
                seed=params.seed,
                process=process,
                time_limit_s=time_limit_s,
                to=parts / f"{process}.parquet",
            )
            if not part.to.is_file():
                doing = f"racing, process {process + 1} of {params.processes}"
                with progress(doing, part.turns) as advance:
                    run(part, advance)
            done.append(read_part(part.to))
        astray = [part.about["strays"] for part in done]
        arms = dict.fromkeys(arm for one in astray for arm in one)
        receipt["strays"] = {
            arm: sorted({q for one in astray for q in one.get(arm, ())}) for arm in arms
        }
        write_times(
            layout.times, done, [query.query_id for query in texts.timed], digest.of_json(receipt)
        )
        layout.write(Layout.race_receipt, receipt)
        note_timed(layout, "race", tuple(loaded), datetime.now(UTC))
        shutil.rmtree(layout.race_parts, ignore_errors=True)


def _receipt(
    layout: Layout, arms: Sequence[str], texts: RaceTexts, params: RaceParams
) -> dict[str, object]:
    return {
        "arms": {arm: read_manifest(layout, arm).fingerprint for arm in arms},
        "runs": {arm: digest.of_file(layout.run(arm)) for arm in arms},
        "queries_sha256": digest.of_queries(texts.timed),
        "warmup_sha256": digest.of_queries(texts.warm),
        "k": params.k,
        "warmup": params.warmup,
        "repeated": params.repeated,
        "processes": params.processes,
        "seed": params.seed,
    }


def _expected(layout: Layout, arm: str, texts: RaceTexts, k: int) -> dict[str, Expected]:
    asked = {query.query_id for query in (*texts.warm, *texts.timed)}
    rows = read_run(layout.run(arm)).rows()
    found = {row.query_id: shown(row, k) for row in rows if row.query_id in asked}
    if missing := asked - found.keys():
        raise MismatchedQueries(missing, ())
    return found


def read_race(layout: Layout) -> Race | None:
    """Read the last race; None where none was run."""
    if not layout.race_receipt.is_file():
        return None
    hint = layout.remedy(Layout.times)
    if not layout.times.is_file():
        raise EvidenceError(f"{layout.times}: the times of the race are gone. {hint}")
    receipt, times = layout.read(Layout.race_receipt), TIMES.read(layout.times, hint)
    if times.about.get("receipt_sha256") != digest.of_json(receipt):
        raise EvidenceError(
            f"{layout.times}: these are the times of another race than {layout.race_receipt}"
            f" speaks of. {hint}"
        )
    try:
        check_past(times.about["raced_at"])
    except EvidenceError as exc:
        raise EvidenceError(f"{layout.times}: {exc}. {hint}") from exc
    for arm, raced in receipt["runs"].items():
        run, index = layout.run(arm), read_manifest(layout, arm).fingerprint
        if not run.is_file() or digest.of_file(run) != raced or index != receipt["arms"][arm]:
            raise EvidenceError(
                f"{layout.times}: {arm} was replayed or indexed anew since the race. {hint}"
            )
    arms, strays = tuple(receipt["arms"]), receipt["strays"]
    return Race(
        query_ids=times.queries,
        elapsed_ns={arm: times.of(arm, "elapsed_ns", 0) for arm in arms},
        lost_ns={arm: times.lost_ns(arm) for arm in arms},
        turns={arm: times.of(arm, "turn", 0) for arm in arms},
        repeated_ns={arm: times.of(arm, "elapsed_ns", 1) for arm in arms},
        unseen_ns={arm: times.of(arm, "elapsed_ns", UNSEEN) for arm in arms},
        reference_ns=np.array([one["reference_ns"] for one in times.processes], dtype=np.int64),
        stolen={arm: times.stolen(arm) for arm in arms},
        verified={arm: arm not in strays for arm in arms},
        machine=times.about["machine"],
        raced_at=times.about["raced_at"],
    )


class CountingSearcher:
    """Answers as ``searcher`` does, and counts how often; nothing more, for the clock runs."""

    def __init__(self, searcher: Searcher) -> None:
        self._search = searcher.search
        self._search_with = searcher.search_with if isinstance(searcher, TakesParams) else None
        self.manifest = searcher.manifest
        self.asked = 0

    def search(self, text: str, k: int) -> Answer:
        self.asked += 1
        return self._search(text, k)

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        if self._search_with is None:
            return self.search(text, k)
        self.asked += 1
        return self._search_with(text, k, params)


@dataclass(frozen=True, slots=True)
class RacePart:
    """A value that a new process can be sent; calling it runs the part."""

    openers: Mapping[str, Opener]
    expected: Mapping[str, Mapping[str, Expected]]
    texts: RaceTexts
    order: str
    k: int
    seed: int
    process: int
    """Its number, from 0: each has an order of its own."""
    time_limit_s: float
    to: Path

    @property
    def turns(self) -> int:
        """How often each arm is queried."""
        return sum(map(len, self.texts))

    def __call__(self, advance: Advance) -> None:
        """Open the arms in an order of this process, race them, and write the part."""
        began_at = datetime.now(UTC).isoformat(timespec="seconds")
        order = random.Random(f"{self.seed} {self.process}").sample(
            sorted(self.openers), len(self.openers)
        )
        with ExitStack() as opened:
            searchers = {arm: opened.enter_context(self.openers[arm]()) for arm in order}
            tallies = {arm: CountingSearcher(searcher) for arm, searcher in searchers.items()}
            lap = run_race(
                tallies,
                self.expected,
                self.texts,
                k=self.k,
                seed=self.seed,
                process=self.process,
                time_limit_s=self.time_limit_s,
                advance=advance,
            )
        for arm, tally in tallies.items():
            if tally.asked != self.turns:
                raise EvidenceError(
                    f"{arm} received {many(tally.asked, 'query')} in a race that gave it"
                    f" {self.turns} turns: the time of one arm covers another's. Time each arm by"
                    " itself"
                )
        write_part(self.to, lap, self.process, began_at, self.order)
