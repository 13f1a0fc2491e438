"""Stage ``race``: times are kept with what was raced, and only for the runs at hand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness.core.engine import Answer
from harness.core.errors import BadFile, EvidenceError, IndexNotReady, InvalidArm
from harness.core.gate import Outcome
from harness.corpus.runs import read_run, write_run
from harness.pipeline.index import index
from harness.pipeline.race import COLUMNS, RacePart, race, read_race, read_times
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.replay.machine import Advance, Work
from harness_engines import registry as arms
from harness_engines.stacks.text.fts5 import Fts5Searcher
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.toy import CANDIDATE, CONTROL, Toy, here
from tests.steady import CLOCK

pytestmark = pytest.mark.slow


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


def test_the_receipt_holds_no_time(measured: Toy) -> None:
    receipt = json.loads(measured.layout.race_receipt.read_text())
    assert receipt["arms"][CONTROL] == read_manifest(measured.layout, CONTROL).fingerprint
    assert set(receipt) == {
        "arms", "runs", "queries_sha256", "warmup_sha256", "k", "warmup", "repeated", "processes",
        "seed", "strays",
    }  # fmt: skip


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


def test_racing_twice_gives_the_same_receipt_and_other_times(project: Toy) -> None:
    receipt, times = project.layout.race_receipt, project.layout.times
    before = receipt.read_bytes(), times.read_bytes()
    project.race()
    assert receipt.read_bytes() == before[0]
    assert times.read_bytes() != before[1]


def test_no_race_is_none(project: Toy) -> None:
    project.layout.race_receipt.unlink()
    assert read_race(project.layout) is None


def test_times_that_are_gone_are_named(project: Toy) -> None:
    project.layout.times.unlink()
    with pytest.raises(EvidenceError, match=r"the times of the race are gone\. Run: harness race"):
        read_race(project.layout)


def test_a_run_made_since_the_race_spoils_it(project: Toy) -> None:
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="tantivy was replayed since the race"):
        read_race(project.layout)


def test_an_index_made_since_the_race_spoils_it(project: Toy) -> None:
    path = project.layout.manifest(CANDIDATE)
    path.write_bytes(project.layout.manifest("hash-hybrid").read_bytes())
    with pytest.raises(EvidenceError, match="tantivy was indexed anew since the race"):
        read_race(project.layout)


def test_times_of_another_race_are_refused(project: Toy) -> None:
    receipt = json.loads(project.layout.race_receipt.read_text())
    project.layout.race_receipt.write_text(json.dumps({**receipt, "seed": 6}))
    with pytest.raises(EvidenceError, match="the times of another race than"):
        read_race(project.layout)


@pytest.mark.parametrize("name", ["race_receipt", "times"])
def test_broken_files_are_named(project: Toy, name: str) -> None:
    path: Path = getattr(project.layout, name)
    path.write_text("{not")
    with pytest.raises(BadFile, match=rf"{path.name}(:1)?: not "):
        read_race(project.layout)


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


def test_an_arm_given_by_its_path_races_under_its_name(project: Toy, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(arms.path_of("fts5").read_text())
    index(project.layout, str(own), project.cache)
    replay(project.layout, str(own), project.cache, project.params.replay)
    race(project.layout, [str(own)], project.cache, project.params.race, 10, run=here)
    found = read_race(project.layout)
    assert found is not None
    assert set(found.elapsed_ns) == {"mine"}


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


@pytest.mark.parametrize(("start", "stop"), [(1, 150), (0, 149), (0, 0)])
def test_a_time_that_is_gone_is_missed(project: Toy, start: int, stop: int) -> None:
    spoilt(project, lambda table: table.slice(start, stop - start))
    with pytest.raises(EvidenceError, match="not every process has a time of every query"):
        read_race(project.layout)


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
