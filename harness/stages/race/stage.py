"""Stage ``race``: time the arms of a migration against each other, in several fresh processes."""

from __future__ import annotations

import random
import secrets
import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from engines import registry
from harness.core import digest
from harness.core.durable.locks import held
from harness.core.errors import BadFile, EvidenceError, MismatchedQueries
from harness.core.evidence import Race
from harness.core.experiment import Clocked
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.printable import many
from harness.core.progress import progress
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.policy.age import check_past
from harness.replay.fresh import Advance, Work, in_fresh_process
from harness.replay.machine import machine
from harness.replay.race import UNSEEN, Expected, shown
from harness.replay.race import race as run_race
from harness.replay.race_texts import Texts, Words, draw, varied
from harness.stages.custody.proof import check_run, read_manifest
from harness.stages.experiments.inputs import note_timed
from harness.stages.index import check_index
from harness.stages.layout import Layout
from harness.stages.load.opener import Opener
from harness.stages.params import RaceParams
from harness.stages.race.times import Part, Times, read_part, read_times, write_part, write_times
from harness.stages.replay.tally import Tally, check_apart, check_turns
from harness.stages.resume import drop_older

Run = Callable[[Work, Advance], None]
"""Does the work of one process, and comes back when it is done."""


def race(
    layout: Layout,
    arm_names: Sequence[str],
    cache: Path,
    params: RaceParams,
    time_limit_s: float,
    *,
    run: Run = in_fresh_process,
) -> None:
    """Time every arm in ``params.processes`` processes, one after the other.

    Each opens the indexes anew, which makes a process the A/A control of the others. Its times are
    kept when it is done, so an interrupted race goes on with the next one. The log of experiments
    notes that a race begins, or that it goes on, before it does: one that is dropped was still one.
    Each process asks variants of its own, drawn anew: no race before has asked them either.
    Two races take turns: they would remove each other's parts, and time each other's work.

    Raises:
        Locked: another race took too long.
        InvalidArm: an arm's index is not the one that it was replayed on, or a process died.
        EvidenceError: an arm was not replayed, or the time of one arm covers another's.
        HarnessError: there are too few queries to time some and warm up on others.
    """
    loaded = {arm.name: arm for arm in (registry.load(name, cache) for name in arm_names)}
    for name, arm in loaded.items():
        read_manifest(layout, name)
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
    openers = {
        name: Opener(
            str(arm.path), layout.index(name), cache, read_manifest(layout, name).fingerprint
        )
        for name, arm in loaded.items()
    }
    receipt = _receipt(layout, tuple(loaded), texts, params)
    parts = layout.race_parts / digest.of_json([receipt, machine()])[:32]
    with held(layout.race_parts):
        drop_older(parts, params.resume_hours)
        expected = {name: _expected(layout, name, texts, params.k) for name in loaded}
        done: list[Part] = []
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
        receipt["strays"] = _strays(done)
        write_times(
            layout.times, done, [query.query_id for query in texts.timed], digest.of_json(receipt)
        )
        write_json(layout.race_receipt, receipt)
        note_timed(layout, "race", tuple(loaded), datetime.now(UTC))
        shutil.rmtree(layout.race_parts, ignore_errors=True)


def _receipt(
    layout: Layout, arms: Sequence[str], texts: Texts, params: RaceParams
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


def _expected(layout: Layout, arm: str, texts: Texts, k: int) -> dict[str, Expected]:
    asked = {query.query_id for query in (*texts.warm, *texts.timed)}
    rows = read_run(layout.run(arm)).rows()
    found = {row.query_id: shown(row, k) for row in rows if row.query_id in asked}
    if missing := asked - found.keys():
        raise MismatchedQueries(missing, ())
    return found


def _strays(parts: Sequence[Part]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for part in parts:
        for arm, ids in part.about["strays"].items():
            found.setdefault(arm, set()).update(ids)
    return {arm: sorted(ids) for arm, ids in found.items()}


def read_race(layout: Layout) -> Race | None:
    """Read the last race; None where none was run.

    Raises:
        EvidenceError: the times and the receipt beside them are not of one race, or the arms'
            indexes or runs changed since.
        BadFile: a file is not what ``race`` wrote.
    """
    if not layout.race_receipt.is_file():
        return None
    hint = f"Run: harness race --dataset {layout.root.name}"
    if not layout.times.is_file():
        raise EvidenceError(f"{layout.times}: the times of the race are gone. {hint}")
    with _of_a_race(layout.race_receipt, hint):
        receipt = json_file(layout.race_receipt)
    with _of_a_race(layout.times, hint):
        times = read_times(layout.times)
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
        if not layout.run(arm).is_file() or digest.of_file(layout.run(arm)) != raced:
            raise EvidenceError(f"{layout.times}: {arm} was replayed since the race. {hint}")
        if read_manifest(layout, arm).fingerprint != receipt["arms"][arm]:
            raise EvidenceError(f"{layout.times}: {arm} was indexed anew since the race. {hint}")
    return race_of(times, receipt["arms"], receipt["strays"])


@contextmanager
def _of_a_race(path: Path, hint: str) -> Iterator[None]:
    try:
        yield
    except ValueError as exc:
        raise BadFile(path, f"not of a race ({exc})", hint) from exc


def race_of(times: Times, arms: Iterable[str], strays: Container[str]) -> Race:
    """Give the times of these arms as evidence; those in ``strays`` are not verified.

    Raises:
        EvidenceError: a time is missing, two processes have the same, or are one.
    """
    arms = tuple(arms)
    _check_processes(times)
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


def _check_processes(times: Times) -> None:
    """Refuse an A/A control that is the same open index: each process opens its own."""
    own = {(process["pid"], process["started"]) for process in times.processes}
    if len(own) < len(times.processes):
        raise EvidenceError(
            f"{many(len(times.processes), 'process was')} raced, and they are {len(own)}: an index"
            " that is open already gives no A/A control. Run: harness race"
        )


@dataclass(frozen=True, slots=True)
class RacePart:
    """A value that a new process can be sent; calling it runs the part."""

    openers: Mapping[str, Opener]
    """By arm."""
    expected: Mapping[str, Mapping[str, Expected]]
    """By arm and query: what the arm's run has."""
    texts: Texts
    order: str
    """What the variants among ``texts`` were drawn by."""
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
        """Open the arms in an order of this process, race them, and write the part.

        Raises:
            IndexNotReady: an index is not the one that its arm was replayed on.
            EvidenceError: the time of one arm covers another's.
        """
        began_at = datetime.now(UTC).isoformat(timespec="seconds")
        order = random.Random(f"{self.seed} {self.process}").sample(
            sorted(self.openers), len(self.openers)
        )
        with ExitStack() as opened:
            searchers = {arm: opened.enter_context(self.openers[arm]()) for arm in order}
            check_apart(searchers)
            tallies = {arm: Tally(searcher) for arm, searcher in searchers.items()}
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
        check_turns(tallies, self.turns, self.k)
        write_part(self.to, lap, self.process, began_at, self.order)
