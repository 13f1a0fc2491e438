"""From the counters of a scheduler to a verdict, on a machine whose load the test turns."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.engine import Searcher
from harness.core.evidence import Race
from harness.core.gate import Finding, Verdict
from harness.core.records import Document, Query
from harness.pipeline import race as stages_race
from harness.pipeline.race import (
    Part,
    Times,
    race_of,
    read_part,
    read_times,
    write_part,
    write_times,
)
from harness.replay import race as module
from harness.replay.drive import TimedOutcome, observe
from harness.replay.machine import Look
from harness.replay.race import RUN_QUEUE, Reading, Taken, Words, draw, race, shown, varied
from tests.make import gate_inputs
from tests.make.arms import Table, queries

MS = 1_000_000
COSTS_MS = {"light": 0.4, "heavy": 6.0}
BOUND = {"percent": "p95", "max_ratio": 11.0, "max_noise": 4, "max_stolen": 0.02}
"""Heavy is 15 times light: the gate fails on a quiet machine."""


@dataclass
class Machine:
    """Runs answers on a clock of its own; each may have to wait for a processor first."""

    chance: float
    """That an answer of 0.4 ms waits; a longer one waits as often for each 0.4 ms of it."""
    others: float = 0.0
    waited_ns: int = 0
    ran_ns: int = 0
    at_s: float = 0.0
    counts: str = RUN_QUEUE

    def __post_init__(self) -> None:
        self.rng = random.Random(5)

    def observe(self, searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        """Answer as the searcher does, in the time that this machine gives it."""
        row = observe(searcher, query, k, limit_ns).row
        cost_ms = COSTS_MS[searcher.manifest.engine] * self.rng.lognormvariate(0, 0.2)
        waits = sum(self.rng.random() < self.chance for _ in range(max(1, round(cost_ms / 0.4))))
        waited_ns = int(waits * 4 * MS * self.rng.lognormvariate(0, 0.2))
        self.waited_ns += waited_ns
        self.ran_ns += int(cost_ms * MS)
        return TimedOutcome(row, int(cost_ms * MS) + waited_ns)

    def read(self) -> Reading:
        """Be the meter too."""
        return Reading({"main": self.waited_ns}, self.ran_ns, 0)

    def taken(self, before: Reading, after: Reading, _: int) -> Taken:
        """Give what was taken between two readings."""
        waited_ns = after.waits_ns["main"] - before.waits_ns["main"]
        return Taken(waited_ns, after.cpu_ns - before.cpu_ns, 0)

    def close(self) -> None:
        """Hold nothing."""

    def look(self) -> Look:
        """Be the surroundings: of two processors, a share is used by others."""
        self.at_s += 10
        total = 2 * self.at_s
        return Look(self.at_s, 0, self.others * total, total, 0, 0, None)


def raced(machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Race:
    """Race light against heavy on it, in three processes, by way of the files."""
    monkeypatch.setattr(module, "observe", machine.observe)
    monkeypatch.setattr(module, "_check_clock", lambda *_: None)
    monkeypatch.setattr(module, "Meter", lambda: machine)
    monkeypatch.setattr(module, "look", machine.look)
    texts = draw(queries(100), {}, timed=90, warm=10, repeated=5, seed=1)
    words = Words([Document("d", "", "question something 1 2 3")] * 9, 9)
    texts = varied(texts, queries(100), words, "")
    arms = {name: Table(name) for name in COSTS_MS}
    expected = {
        name: {q.query_id: shown(observe(arm, q, 5, MS * MS).row, 5) for q in queries(100)}
        for name, arm in arms.items()
    }
    parts: list[Part] = []
    for process in range(3):
        monkeypatch.setattr(stages_race, "started", lambda process=process: float(process))
        lap = race(
            arms, expected, texts, k=5, seed=1, process=process, time_limit_s=60,
            advance=lambda _: None,
        )  # fmt: skip
        write_part(folder / "part", lap, process, f"2026-11-0{process + 1}")
        parts.append(read_part(folder / "part"))
    write_times(folder / "times", parts, [query.query_id for query in texts.timed], "digest")
    times = read_times(folder / "times")
    assert times.about["raced_at"] == "2026-11-01"
    return race_of(times, COSTS_MS, ())


def verdict(race: Race, **changed: float) -> Verdict:
    return judged(race, **changed).verdict


def judged(race: Race, **changed: float) -> Finding:
    told = gate_inputs.race(1.0)
    arms = {"old": "light", "new": "heavy"}
    renamed = {
        name: {arm: getattr(race, name)[of] for arm, of in arms.items()}
        for name in ("elapsed_ns", "lost_ns", "turns", "repeated_ns", "unseen_ns", "stolen")
    }
    told = Race(
        query_ids=race.query_ids, reference_ns=race.reference_ns, verified=told.verified,
        machine=told.machine, raced_at=race.raced_at, **renamed,
    )  # fmt: skip
    return gate_inputs.judge("latency_ratio", gate_inputs.evidence(9, race=told), **BOUND | changed)


@pytest.mark.slow
def test_on_a_quiet_machine_the_gate_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    race = raced(Machine(0.0), tmp_path, monkeypatch)
    assert verdict(race) is Verdict.FAIL
    assert {stolen.share for stolen in race.stolen.values()} == {0}
    assert {times.shape for times in race.unseen_ns.values()} == {(3, 90)}


@pytest.mark.slow
def test_beside_busy_programs_it_would_pass_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The light one's slowest waited ten times their own time, so the ratio falls below 11."""
    race = raced(Machine(0.15), tmp_path, monkeypatch)
    blind = replace(
        race,
        lost_ns={arm: 0 * lost for arm, lost in race.lost_ns.items()},
        unseen_ns=race.elapsed_ns,
    )
    assert verdict(blind, max_stolen=1e6) is Verdict.PASS
    assert verdict(race) is Verdict.INCONCLUSIVE
    assert verdict(race, max_stolen=1e6) is Verdict.INCONCLUSIVE
    light, heavy = race.stolen["light"], race.stolen["heavy"]
    assert light.waited == pytest.approx(0.6, rel=0.3)
    assert heavy.waited == pytest.approx(0.6, rel=0.3)
    assert light.by == "its answers waited for a processor"


@pytest.mark.slow
def test_a_busy_neighbour_that_nobody_waits_for_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = raced(Machine(0.0, others=0.5), tmp_path, monkeypatch)
    assert race.stolen["light"].share == pytest.approx(0.5)
    assert race.stolen["light"].by == "other programs used the processors"
    assert verdict(race) is Verdict.INCONCLUSIVE
    assert verdict(race, max_stolen=0.6) is Verdict.FAIL


@pytest.mark.parametrize(
    ("waited", "cpu", "lost"),
    [
        (3_000, 7_000, 3_000),  # one thread that waited
        (9_000, 7_000, 6_500),  # most of it before the clock ran
        (9_000, 20_000, 0),  # two processors worked all the time
        (0, 100, 0),  # it slept
    ],
)
def test_a_call_lost_no_more_than_its_time_without_work(waited: int, cpu: int, lost: int) -> None:
    """In a call of 10 us on two processors."""
    call = {"process": 0, "arm": "a", "query_id": "q", "repetition": 0}
    counted = {"elapsed_ns": 10_000, "waited_ns": waited, "cpu_ns": cpu}
    columns = {name: np.array([value]) for name, value in (call | counted).items()}
    times = Times(columns, {}, [{"cores": 2}], ("q",))
    assert times.lost_ns("a").tolist() == [[lost]]


@pytest.mark.parametrize("name", ["part", "times"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(Path(__file__).read_bytes())
    with pytest.raises(ValueError, match=r"magic|Parquet|format"):
        (read_part if name == "part" else read_times)(path)
