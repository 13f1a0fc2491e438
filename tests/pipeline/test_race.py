"""The stage race: times, first answers and memos."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness.core.engine import Answer, Searcher
from harness.core.errors import BadFile, EvidenceError, IndexNotReady, InvalidArm
from harness.core.evidence import Race
from harness.core.gate import Finding, Outcome, Verdict
from harness.core.records import Document, Query
from harness.corpus.runs import read_run, write_run
from harness.gates.base.rules import Rules
from harness.pipeline import experiments
from harness.pipeline import race as stages_race
from harness.pipeline.index import index
from harness.pipeline.prepare import prepare
from harness.pipeline.race import (
    COLUMNS,
    ProcessPart,
    RacePart,
    Times,
    race,
    race_of,
    read_part,
    read_race,
    read_times,
    write_part,
    write_times,
)
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.pipeline.report_inputs import latency
from harness.replay import race as module
from harness.replay.drive import TimedOutcome, observe
from harness.replay.machine import Advance, MachineCounters, Work
from harness.replay.race import RUN_QUEUE, CallCost, ProcessCounters, Words, draw, shown, varied
from harness.replay.race import race as race_times
from harness.stats.times import seen_ratio
from harness_engines import registry as arms
from harness_engines.stacks.text.fts5 import Fts5Searcher
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make import gate_inputs, toy
from tests.make.arms import Table, queries
from tests.make.toy import CANDIDATE, CONTROL, NAME, Toy, here
from tests.steady import CLOCK


@pytest.mark.slow
def test_every_time_is_kept(measured: Toy) -> None:
    found = read_race(measured.layout)
    assert found is not None
    for by_arm, shape in (
        (found.elapsed_ns, (3, 20)),
        (found.repeated_ns, (3, 5)),
        (found.unseen_ns, (3, 20)),
        (found.turns, (3, 20)),
    ):
        assert set(by_arm) == {CONTROL, CANDIDATE}
        assert {values.shape for values in by_arm.values()} == {shape}
    for times in (*found.elapsed_ns.values(), *found.repeated_ns.values()):
        assert (times > 0).all()
    assert (found.turns[CONTROL] + found.turns[CANDIDATE] == 1).all()
    assert (found.turns[CONTROL][0] != found.turns[CONTROL][1]).all()
    assert found.reference_ns.shape == (3, 20)
    assert found.verified == {CONTROL: True, CANDIDATE: True}
    assert len(set(found.query_ids)) == 20


@pytest.mark.slow
def test_the_receipt_holds_no_time(measured: Toy) -> None:
    receipt = json.loads(measured.layout.race_receipt.read_text())
    assert receipt["arms"][CONTROL] == read_manifest(measured.layout, CONTROL).fingerprint
    assert set(receipt) == {
        "arms", "runs", "queries_sha256", "warmup_sha256", "k", "warmup", "repeated", "processes",
        "seed", "strays",
    }  # fmt: skip


@pytest.mark.slow
def test_the_file_of_times_has_every_call_and_what_was_taken_from_it(measured: Toy) -> None:
    table = pq.read_table(measured.layout.times)
    assert table.schema.names == COLUMNS.names
    assert len(table) == 3 * 2 * (20 + 5 + 20)
    assert min(table.column("waited_ns").to_pylist()) >= 0
    assert min(table.column("cpu_ns").to_pylist()) > 0
    times = read_times(measured.layout.times)
    assert [one["process"] for one in times.processes] == [0, 1, 2]
    for one in times.processes:
        assert set(one) == {
            "process", "pid", "started", "began_at", "order", "cores", "counts", "reference_ns",
            "surroundings", "strays", "beside_ns",
        }  # fmt: skip
        assert len(one["order"]) == 16
        assert set(one["surroundings"]) == {"others", "steal", "throttled", "pressure"}
    for arm in (CONTROL, CANDIDATE):
        stolen = times.stolen(arm)
        waited, elapsed = (times.of(arm, name, 0).sum() for name in ("waited_ns", "elapsed_ns"))
        assert stolen.waited == pytest.approx(waited / elapsed)
        assert stolen.share >= stolen.others


@pytest.mark.slow
def test_racing_twice_gives_the_same_receipt_and_other_times(project: Toy) -> None:
    receipt, times = project.layout.race_receipt, project.layout.times
    before = receipt.read_bytes(), times.read_bytes()
    project.race()
    assert receipt.read_bytes() == before[0]
    assert times.read_bytes() != before[1]


@pytest.mark.slow
def test_no_race_is_none(project: Toy) -> None:
    project.layout.race_receipt.unlink()
    assert read_race(project.layout) is None


@pytest.mark.slow
def test_times_that_are_gone_are_named(project: Toy) -> None:
    project.layout.times.unlink()
    with pytest.raises(EvidenceError, match=r"the times of the race are gone\. Run: harness race"):
        read_race(project.layout)


@pytest.mark.slow
def test_a_run_made_since_the_race_spoils_it(project: Toy) -> None:
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="tantivy was replayed since the race"):
        read_race(project.layout)


@pytest.mark.slow
def test_an_index_made_since_the_race_spoils_it(project: Toy) -> None:
    path = project.layout.manifest(CANDIDATE)
    path.write_bytes(project.layout.manifest("hash-hybrid").read_bytes())
    with pytest.raises(EvidenceError, match="tantivy was indexed anew since the race"):
        read_race(project.layout)


@pytest.mark.slow
def test_times_of_another_race_are_refused(project: Toy) -> None:
    receipt = json.loads(project.layout.race_receipt.read_text())
    project.layout.race_receipt.write_text(json.dumps({**receipt, "seed": 6}))
    with pytest.raises(EvidenceError, match="the times of another race than"):
        read_race(project.layout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["race_receipt", "times"])
def test_broken_files_are_named(project: Toy, name: str) -> None:
    path: Path = getattr(project.layout, name)
    path.write_text("{not")
    with pytest.raises(BadFile, match=rf"{path.name}(:1)?: not "):
        read_race(project.layout)


@pytest.mark.slow
def test_an_arm_that_answers_otherwise_than_in_its_run_is_not_verified(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Fts5Searcher.search

    def shorter(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        return honest(searcher, text, k // k)

    monkeypatch.setattr(Fts5Searcher, "search", shorter)
    project.race()
    found = read_race(project.layout)
    assert found is not None
    assert found.verified == {CONTROL: False, CANDIDATE: True}


@pytest.mark.slow
def test_an_arm_given_by_its_path_races_under_its_name(project: Toy, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(arms.path_of("fts5").read_text())
    index(project.layout, str(own), project.cache)
    replay(project.layout, str(own), project.cache, project.params.replay)
    race(project.layout, [str(own)], project.cache, project.params.race, 10, run=here)
    found = read_race(project.layout)
    assert found is not None
    assert set(found.elapsed_ns) == {"mine"}


@pytest.mark.slow
def test_an_index_that_is_not_the_replayed_one_is_not_raced(project: Toy) -> None:
    path = project.layout.index(CONTROL) / "manifest.json"
    path.write_text(path.read_text().replace("sqlite-fts5", "sqlite-fts4"))
    with pytest.raises(IndexNotReady):
        project.race()


def spoilt(project: Toy, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the file of times, and leave what it says of itself."""
    table = pq.read_table(project.layout.times)
    changed = change(table).replace_schema_metadata(table.schema.metadata)
    pq.write_table(changed, project.layout.times)


@pytest.mark.slow
def test_a_process_that_is_a_copy_of_another_is_refused(project: Toy) -> None:
    """Else a race of one process passes for one of two, and A/A is 1 exactly."""

    def copied(table: pa.Table) -> pa.Table:
        two = table.filter(pc.less(table["process"], 2))
        first = table.filter(pc.equal(table["process"], 0))
        third = first.set_column(0, "process", pa.array([2] * len(first), pa.int32()))
        return pa.concat_tables([two, third])

    spoilt(project, copied)
    with pytest.raises(EvidenceError, match="two processes have the same times, so one is a copy"):
        read_race(project.layout)


@pytest.mark.slow
@pytest.mark.parametrize(("start", "stop"), [(1, 150), (0, 149), (0, 0)])
def test_a_time_that_is_gone_is_missed(project: Toy, start: int, stop: int) -> None:
    spoilt(project, lambda table: table.slice(start, stop - start))
    with pytest.raises(EvidenceError, match="not every process has a time of every query"):
        read_race(project.layout)


@pytest.mark.slow
def test_an_interrupted_race_goes_on_with_the_process_that_failed(project: Toy) -> None:
    ran: list[int] = []

    def failing(work: Work, advance: Advance) -> None:
        assert isinstance(work, RacePart)
        ran.append(work.process)
        if ran == [0, 1]:
            raise InvalidArm("its process died")
        work(advance)

    params = project.params.race
    arms = (CONTROL, CANDIDATE)
    before = project.layout.times.read_bytes()
    with pytest.raises(InvalidArm, match="died"):
        race(project.layout, arms, project.cache, params, 10, run=failing)
    assert project.layout.times.read_bytes() == before
    race(project.layout, arms, project.cache, params, 10, run=failing)
    assert ran == [0, 1, 1, 2]
    assert not project.layout.race_parts.exists()
    race(project.layout, arms, project.cache, params, 10, run=failing)
    assert ran == [0, 1, 1, 2, 0, 1, 2]


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("old", ["hours", "seed"])
def test_parts_of_long_ago_or_of_another_race_are_not_gone_on_with(project: Toy, old: str) -> None:
    ran: list[int] = []

    def dying(work: Work, advance: Advance) -> None:
        assert isinstance(work, RacePart)
        ran.append(work.process)
        if len(ran) == 2:
            raise InvalidArm("its process died")
        work(advance)

    params, arms = project.params.race, (CONTROL, CANDIDATE)
    with pytest.raises(InvalidArm):
        race(project.layout, arms, project.cache, params, 10, run=dying)
    (part,) = project.layout.race_parts.rglob("*.parquet")
    if old == "hours":
        long_ago = part.stat().st_mtime - 3_700
        os.utime(part, (long_ago, long_ago))
    else:
        params = params.model_copy(update={"seed": 6})
    race(project.layout, arms, project.cache, params, 10, run=dying)
    assert ran == [0, 1, 0, 1, 2]


@pytest.mark.slow
def test_a_memo_of_the_whole_process_gains_nothing_on_first_answers(project: Toy) -> None:
    """In real processes: nothing that was asked before, in whatever process, is known there."""
    memo = str(Path(__file__).parent / "memo" / "memo.toml")
    index(project.layout, memo, project.cache)
    replay(project.layout, memo, project.cache, project.params.replay)
    params = project.params.race.model_copy(update={"processes": 2})
    race(project.layout, ["fts5", memo], project.cache, params, 10)
    found = read_race(project.layout)
    assert found is not None
    assert found.verified == {"fts5": True, "memo": True}
    thinks_ns = 20_000_000
    assert found.elapsed_ns["memo"].min() >= thinks_ns
    assert np.median(found.repeated_ns["memo"]) < thinks_ns / 2
    pids = {one["pid"] for one in read_times(project.layout.times).processes}
    assert len(pids | {os.getpid()}) == 3


@pytest.mark.slow
def test_an_engine_with_a_memo_is_judged_by_what_it_does_first(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = TantivySearcher.search
    seen: dict[tuple[int, str], Answer] = {}

    def remembering(searcher: TantivySearcher, text: str, k: int) -> Answer:
        if (id(searcher), text) not in seen:
            CLOCK.passes(400_000_000)
            seen[id(searcher), text] = honest(searcher, text, k)
        return seen[id(searcher), text]

    policy = project.root / "policy" / "toy.toml"
    policy.write_text(policy.read_text().replace("max_ratio = 50", "max_ratio = 3"))
    monkeypatch.setattr(TantivySearcher, "search", remembering)
    project.race()
    decision = project.decide()
    assert decision.outcome is Outcome.HOLD
    (speed,) = (finding for finding in decision.blocking if finding.gate == "Speed")
    assert speed.estimate is not None
    assert speed.estimate.value > 3
    assert "tantivy has a cache: a text that comes again takes" in speed.reason


THINKS_NS = 20_000_000
Begin = Callable[..., None]


def ratios(found: Race) -> tuple[float, float]:
    """Give the ratio of known over new texts of the one arm, and the highest of the honest one."""
    seen = [
        seen_ratio(found.elapsed_ns[arm], found.unseen_ns[arm], confidence=0.95)
        for arm in ("kept", "fts5")
    ]
    assert seen[0] is not None
    assert seen[1] is not None
    return seen[0].value, seen[1].high


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("depth", ["of the replay", "of the race"])
def test_answers_that_an_engine_kept_on_disk_are_found_in_every_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: str
) -> None:
    """In real processes: the replay, or an earlier process, had every text at this depth."""
    monkeypatch.setattr(toy, "ASKED", 6)
    project = toy.make(tmp_path)
    prepare(tmp_path / "datasets" / NAME, tmp_path / "qrels" / NAME, project.layout.data)
    kept = str(Path(__file__).parent / "memo" / "kept.toml")
    for arm in ("fts5", kept):
        index(project.layout, arm, project.cache)
        replay(project.layout, arm, project.cache, project.params.replay)
    params = project.params.race.model_copy(update={"processes": 2, "repeated": 12})
    if depth == "of the replay":
        params = params.model_copy(update={"k": project.params.replay.k})
    for again in range(2):
        race(project.layout, ["fts5", kept], project.cache, params, 10)
        found = read_race(project.layout)
        assert found is not None
        assert found.verified == {"fts5": True, "kept": True}
        known = found.elapsed_ns["kept"][0 if again or depth == "of the replay" else 1]
        assert np.median(known) < THINKS_NS / 2
        assert np.median(found.unseen_ns["kept"]) >= THINKS_NS
        kept_ratio, honest = ratios(found)
        assert kept_ratio < 0.5 < honest


@pytest.fixture
def begin(project: Toy) -> Begin:
    """Begin a race that is stopped in this process, where a number is given."""

    def raced(stops_in: int = -1) -> None:
        numbers = count()

        def run(part: Work, advance: Advance) -> None:
            if next(numbers) == stops_in:
                raise KeyboardInterrupt
            here(part, advance)

        race(project.layout, [CONTROL, CANDIDATE], project.cache, project.params.race, 10, run=run)

    return raced


def kinds(project: Toy) -> list[str]:
    return [line.kind for line in experiments.read(project.layout).experiments]


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("stops_in", "goes_on"), [(0, "begun"), (1, "resumed")])
def test_a_race_that_was_stopped_is_in_the_log(
    project: Toy, begin: Begin, stops_in: int, goes_on: str
) -> None:
    before = kinds(project)
    with pytest.raises(KeyboardInterrupt):
        begin(stops_in)
    assert kinds(project) == [*before, "race begun"]
    begin()
    assert kinds(project) == [*before, "race begun", f"race {goes_on}", "race"]


@pytest.mark.slow
def test_a_race_that_was_dropped_and_begun_anew_is_in_the_log(project: Toy, begin: Begin) -> None:
    before = kinds(project)
    with pytest.raises(KeyboardInterrupt):
        begin(1)
    shutil.rmtree(project.layout.race_parts)
    begin()
    assert kinds(project) == [*before, "race begun", "race begun", "race"]


@pytest.mark.slow
def test_a_race_begins_though_the_last_one_cannot_be_read(project: Toy) -> None:
    """That is the hint which is named where it cannot."""
    project.layout.race_receipt.write_text("{not")
    project.race()
    begun, ended = experiments.read(project.layout).experiments[-2:]
    assert (begun.inputs.times, begun.inputs.seeds) == (None, {})
    assert ended.inputs.seeds == {"race": 5}


RULES = Rules(confidence=0.95, resamples=1_000, seed=7, power=0.8)


@pytest.fixture
def race_latency() -> Race:
    rng = np.random.default_rng(7)
    control = rng.integers(100_000, 200_000, (3, 40))
    return Race(
        query_ids=tuple(f"q{at}" for at in range(40)),
        elapsed_ns={"old": control, "new": 3 * control},
        lost_ns={arm: np.zeros((3, 40), int) for arm in ("old", "new")},
        turns={"old": np.zeros((3, 40), int), "new": np.ones((3, 40), int)},
        repeated_ns={"old": control[:, :5], "new": control[:, :5] // 100},
        unseen_ns={"old": control[:, :5], "new": 30 * control[:, :5]},
        reference_ns=np.ones((3, 40), int),
        stolen={},
        verified={"old": True, "new": True},
        machine="a test bench",
        raced_at="2026-01-01T00:00:00+00:00",
    )


def test_percentiles_are_in_order(race_latency: Race) -> None:
    found = latency(race_latency, {"step": ("old", "new")}, RULES).percentiles
    for arm in ("old", "new"):
        values = [found[arm][name].value for name in ("p50", "p90", "p95", "p99")]
        assert values == sorted(values)
        assert all(e.low <= e.value <= e.high for e in found[arm].values())
    assert found["new"]["p50"].value == pytest.approx(3 * found["old"]["p50"].value)


def test_the_ratio_is_candidate_over_control(race_latency: Race) -> None:
    found = latency(race_latency, {"step": ("old", "new")}, RULES)
    for name in ("p50", "p95", "mean"):
        assert found.ratios["step"][name].value == pytest.approx(3)
    for name in ("p50", "p95"):
        assert found.aa["old"][name].value == pytest.approx(1, rel=0.2)
        assert found.aa["new"][name].value == pytest.approx(found.aa["old"][name].value)
    assert set(found.aa) == {"old", "new"}


def test_what_a_text_takes_when_it_comes_again_stands_apart(race_latency: Race) -> None:
    found = latency(race_latency, {}, RULES).repeats
    assert found["old"].value == pytest.approx(1)
    assert found["new"].value == pytest.approx(1 / 300, rel=0.01)


def test_what_a_text_takes_that_the_replay_asked_stands_beside_one_that_it_did_not(
    race_latency: Race,
) -> None:
    found = latency(race_latency, {}, RULES).seen
    assert found["old"].value == pytest.approx(1)
    assert found["new"].value == pytest.approx(0.1)


def test_one_process_has_no_other_to_be_compared_with(race_latency: Race) -> None:
    one = replace(
        race_latency,
        elapsed_ns={arm: times[:1] for arm, times in race_latency.elapsed_ns.items()},
        repeated_ns={arm: times[:1] for arm, times in race_latency.repeated_ns.items()},
        unseen_ns={arm: times[:1] for arm, times in race_latency.unseen_ns.items()},
    )
    found = latency(one, {"step": ("old", "new")}, RULES)
    assert found.aa == {}
    assert found.ratios["step"]["p50"].high == np.inf


def test_a_pair_that_did_not_race_has_no_ratio(race_latency: Race) -> None:
    found = latency(race_latency, {"step": ("old", "new"), "other": ("new", "newer")}, RULES)
    assert set(found.ratios) == {"step"}


def test_a_tail_too_far_out_has_no_upper_end(race_latency: Race) -> None:
    found = latency(race_latency, {}, RULES).percentiles["old"]
    assert found["p99"].high == np.inf
    assert found["p50"].high < np.inf


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

    def read(self) -> ProcessCounters:
        """Be the meter too."""
        return ProcessCounters({"main": self.waited_ns}, self.ran_ns, 0)

    def taken(self, before: ProcessCounters, after: ProcessCounters, _: int) -> CallCost:
        """Give what was taken between two readings."""
        waited_ns = after.waits_ns["main"] - before.waits_ns["main"]
        return CallCost(waited_ns, after.cpu_ns - before.cpu_ns, 0)

    def close(self) -> None:
        """Hold nothing."""

    def look(self) -> MachineCounters:
        """Be the surroundings: of two processors, a share is used by others."""
        self.at_s += 10
        total = 2 * self.at_s
        return MachineCounters(self.at_s, 0, self.others * total, total, 0, 0, None)


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
    parts: list[ProcessPart] = []
    for process in range(3):
        monkeypatch.setattr(stages_race, "started", lambda process=process: float(process))
        lap = race_times(
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
