"""Stage ``race``: time the arms of a migration against each other, in one process."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.contract import arms as registry
from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import Race
from harness.core.files import replacing, write_json
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.replay.machine import machine
from harness.replay.race import Entrant, Lap
from harness.replay.race import race as run_race
from harness.stages.index import check_settings
from harness.stages.layout import Layout
from harness.stages.params import RaceParams
from harness.stages.progress import progress
from harness.stages.proof import check_run, check_same, read_manifest
from harness.stages.tally import Tally, check_turns

COLUMNS = ("arm", "twin", "query_id", "repetition", "elapsed_ns")


def race(
    layout: Layout, arm_names: Sequence[str], cache: Path, params: RaceParams, time_limit_s: float
) -> None:
    """Time every arm and its A/A twin, which is the same index opened a second time.

    Raises:
        InvalidArm: an arm's index is not the one that it was replayed on.
        EvidenceError: an arm was not replayed, or the time of one arm covers another's.
    """
    loaded = {arm.name: arm for arm in (registry.load(name, cache) for name in arm_names)}
    arms = tuple(loaded)
    everything = Prepared.open(layout.data).queries()
    drawn = random.Random(params.seed).sample(everything, min(params.queries, len(everything)))
    runs = {arm: read_run(layout.run(arm)) for arm in arms}
    with ExitStack() as opened:
        entrants: dict[Entrant, Tally] = {}
        for arm in arms:
            wanted = read_manifest(layout, arm)
            check_run(layout, arm)
            check_settings(layout, loaded[arm])
            for twin in (False, True):
                searcher = opened.enter_context(loaded[arm].engine.open(layout.index(arm)))
                check_same(layout, arm, wanted, searcher.manifest)
                entrants[arm, twin] = Tally(searcher)
        laps = (params.warmup + params.repetitions) * len(drawn)
        advance = opened.enter_context(progress("racing", laps))
        lap = run_race(
            entrants,
            runs,
            drawn,
            k=params.k,
            repetitions=params.repetitions,
            warmup=params.warmup,
            seed=params.seed,
            time_limit_s=time_limit_s,
            advance=advance,
        )
    check_turns(entrants, laps)
    receipt = {
        "arms": {arm: read_manifest(layout, arm).fingerprint for arm in arms},
        "runs": {arm: digest.of_file(layout.run(arm)) for arm in arms},
        "queries_sha256": digest.of_queries(drawn),
        "k": params.k,
        "warmup": params.warmup,
        "repetitions": params.repetitions,
        "seed": params.seed,
        "strays": {
            f"{arm}{' (twin)' if twin else ''}": list(ids)
            for (arm, twin), ids in lap.strays.items()
            if ids
        },
    }
    _write_times(layout.times, lap, digest.of_json(receipt))
    write_json(layout.race_receipt, receipt)


def read_race(layout: Layout) -> Race | None:
    """Read the last race; None where none was run.

    Raises:
        EvidenceError: the times and the receipt beside them are not of one race, or the arms'
            indexes or runs changed since.
        BadFile: a file is not what ``race`` wrote.
    """
    if not layout.race_receipt.is_file():
        return None
    cure = f"Run: harness race --dataset {layout.root.name}"
    if not layout.times.is_file():
        raise EvidenceError(f"{layout.times}: the times of the race are gone. {cure}")
    try:
        receipt = json.loads(layout.race_receipt.read_text(encoding="utf-8"))
        table = pq.read_table(layout.times)
    except ValueError as exc:
        raise BadFile(layout.race_receipt, f"not a race ({exc})", cure) from exc
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if about.get("receipt_sha256") != digest.of_json(receipt):
        raise EvidenceError(
            f"{layout.times}: these are the times of another race than {layout.race_receipt}"
            f" speaks of. {cure}"
        )
    for arm, raced in receipt["runs"].items():
        if not layout.run(arm).is_file() or digest.of_file(layout.run(arm)) != raced:
            raise EvidenceError(f"{layout.times}: {arm} was replayed since the race. {cure}")
        if read_manifest(layout, arm).fingerprint != receipt["arms"][arm]:
            raise EvidenceError(f"{layout.times}: {arm} was indexed anew since the race. {cure}")
    query_ids = tuple(json.loads(about["queries"]))
    shape = (len(query_ids), int(receipt["repetitions"]))
    by_entrant: dict[Entrant, list[int]] = {}
    for arm, twin, elapsed_ns in zip(
        *(table.column(name).to_pylist() for name in ("arm", "twin", "elapsed_ns")), strict=True
    ):
        by_entrant.setdefault((arm, twin), []).append(elapsed_ns)
    if any(len(times) != shape[0] * shape[1] for times in by_entrant.values()):
        raise BadFile(layout.times, "not the times that the receipt speaks of", cure)
    times = {
        entrant: np.array(found, dtype=np.int64).reshape(shape)
        for entrant, found in by_entrant.items()
    }
    return Race(
        query_ids=query_ids,
        elapsed_ns={arm: found for (arm, twin), found in times.items() if not twin},
        again_ns={arm: found for (arm, twin), found in times.items() if twin},
        verified={
            arm: not {arm, f"{arm} (twin)"} & receipt["strays"].keys() for arm in receipt["arms"]
        },
        machine=about["machine"],
        raced_at=about["raced_at"],
    )


def _write_times(path: Path, lap: Lap, receipt_sha256: str) -> None:
    rows = [
        (arm, twin, query_id, repetition, int(times[at, repetition]))
        for (arm, twin), times in lap.elapsed_ns.items()
        for at, query_id in enumerate(lap.query_ids)
        for repetition in range(times.shape[1])
    ]
    table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], list(COLUMNS))
    about = {
        "machine": machine(),
        "raced_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "queries": json.dumps(lap.query_ids),
        "receipt_sha256": receipt_sha256,
    }
    with replacing(path) as beside:
        pq.write_table(table.replace_schema_metadata(about), beside, compression="zstd")
