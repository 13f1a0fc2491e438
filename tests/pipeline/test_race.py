"""The stage race, and stages that run side by side."""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import local
from time import sleep
from typing import Any

import numpy as np
import pytest

from harness.core.batches import Processes, using
from harness.core.engine import Answer
from harness.core.errors import EvidenceError, InvalidArm
from harness.core.run import Run
from harness.corpus.runs import RUN_PART, read_run, write_run
from harness.pipeline import race as stage
from harness.pipeline.evidence import for_control, ground, latency
from harness.pipeline.index import index
from harness.pipeline.prepare import prepare
from harness.pipeline.race import CountingSearcher, RacePart, Times, race, read_race, read_times
from harness.pipeline.receipts import check_run
from harness.pipeline.replay import replay
from harness.pipeline.score import PART, score
from harness.policy.load import load_policy
from harness.policy.plan import Raced, plan
from harness.replay import drive
from harness.replay.machine import Advance, Work
from harness.report import trends
from harness.stats.times import text_ratio
from harness_engines.stacks.text.fts5 import Fts5Searcher
from harness_engines.vector import bulk
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import HashEmbedder
from tests.make import gate_inputs, toy
from tests.make.arms import Table
from tests.make.toy import ARMS, CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy
from tests.pipeline.conftest import A_MOMENT_S, AtOnce
from tests.report.test_trends import entry

MEMO, THINKS_NS = Path(__file__).parent / "memo", 10_000_000


@pytest.mark.slow
def test_every_time_is_kept(measured: Toy) -> None:
    found = read_race(measured.layout)
    assert found is not None
    for by_arm in (found.elapsed_ns, found.repeated_ns, found.unseen_ns, found.turns):
        assert set(by_arm) == {CONTROL, CANDIDATE}
        shape = (3, 5) if by_arm is found.repeated_ns else (3, 20)
        assert {values.shape for values in by_arm.values()} == {shape}
    for times in (*found.elapsed_ns.values(), *found.repeated_ns.values()):
        assert (times > 0).all()
    assert (found.turns[CONTROL] + found.turns[CANDIDATE] == 1).all()
    assert (found.turns[CONTROL][0] != found.turns[CONTROL][1]).all()
    assert found.reference_ns.shape == (3, 20)
    assert found.verified == {CONTROL: True, CANDIDATE: True}
    assert len(set(found.query_ids)) == 20


@pytest.mark.slow
def test_a_run_made_since_the_race_spoils_it(project: Toy) -> None:
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="tantivy was replayed or indexed anew since the race"):
        read_race(project.layout)


@pytest.mark.slow
def test_times_of_another_race_are_refused(project: Toy) -> None:
    receipt = json.loads(project.layout.race_receipt.read_text())
    project.layout.race_receipt.write_text(json.dumps({**receipt, "seed": 6}))
    with pytest.raises(EvidenceError, match="the times of another race than"):
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
def test_a_memo_of_the_whole_process_gains_nothing_on_first_answers(project: Toy) -> None:
    """In real processes: nothing that was asked before, in whatever process, is known there."""
    memo = str(MEMO / "memo.toml")
    index(project.layout, memo, project.cache)
    replay(project.layout, memo, project.cache, project.params.replay)
    params = project.params.race.model_copy(update={"processes": 2, "queries": 10})
    race(project.layout, ["fts5", memo], project.cache, params, 10)
    found = read_race(project.layout)
    assert found is not None
    assert found.verified == {"fts5": True, "memo": True}
    assert found.elapsed_ns["memo"].min() >= THINKS_NS
    assert np.median(found.repeated_ns["memo"]) < THINKS_NS / 2
    pids = {one["pid"] for one in read_times(project.layout.times).processes}
    assert len(pids | {os.getpid()}) == 3


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
    kept = str(MEMO / "kept.toml")
    for arm in ("fts5", kept):
        index(project.layout, arm, project.cache)
        replay(project.layout, arm, project.cache, project.params.replay)
    asked = {"processes": 2, "queries": 12, "repeated": 6}
    if depth == "of the replay":
        asked["k"] = project.params.replay.k
    params = project.params.race.model_copy(update=asked)
    for again in range(2):
        race(project.layout, ["fts5", kept], project.cache, params, 10)
        found = read_race(project.layout)
        assert found is not None
        assert found.verified == {"fts5": True, "kept": True}
        known = found.elapsed_ns["kept"][0 if again or depth == "of the replay" else 1]
        assert np.median(known) < THINKS_NS / 2
        assert np.median(found.unseen_ns["kept"]) >= THINKS_NS
        ratios = [
            text_ratio(found.elapsed_ns[arm], found.unseen_ns[arm], confidence=0.95)
            for arm in ("kept", "fts5")
        ]
        assert ratios[0]
        assert ratios[1]
        assert ratios[0].value < 0.5 < ratios[1].high


def test_the_ratio_is_candidate_over_control() -> None:
    control = np.random.default_rng(7).integers(100_000, 200_000, (4, 40))
    repeated = {"old": control[:, :5], "new": control[:, :5] // 100}
    unseen = {"old": control[:, :5], "new": 30 * control[:, :5]}
    elapsed = {"old": control, "new": 3 * control}
    times: dict[str, Any] = {"repeated_ns": repeated, "unseen_ns": unseen, "elapsed_ns": elapsed}
    raced = gate_inputs.race(3, count=40, **times)
    found = latency(raced, {"step": ("old", "new")}, gate_inputs.RULES)
    assert set(found.aa) == {"old", "new"}
    for name in ("p50", "p95", "mean"):
        assert found.ratios["step"][name].value == pytest.approx(3)
    for name in ("p50", "p95"):
        assert found.aa["old"][name].value == pytest.approx(1, rel=0.2)
        assert found.aa["new"][name].value == pytest.approx(found.aa["old"][name].value)
    again, seen = ({arm: of[arm].value for arm in of} for of in (found.repeats, found.seen))
    assert again == pytest.approx({"old": 1, "new": 1 / 300}, rel=0.01), "a text that comes again"
    assert seen == pytest.approx({"old": 1, "new": 0.1}), "beside texts that no replay asked"
    tail = found.percentiles["old"]
    assert tail["p50"].high < tail["p99"].high == np.inf


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


class Filtering(Table):
    """Answers with its filter in the name of the document."""

    def search_with(self, text: str, k: int, params: Mapping[str, object]) -> Answer:
        return self.search(f"{text} {dict(params)}", k)


def test_queries_with_filters_are_counted_and_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf, filtering = CountingSearcher(Table()), CountingSearcher(Filtering())
    monkeypatch.delattr(stage, "TakesParams")  # asked before the clock runs
    for one in (deaf, filtering):
        one.search_with("a", 5, {"to": 1})
        one.search("b", 5)
        assert one.asked == 2
    assert deaf.search_with("a", 5, {"to": 1}).hits[0].doc_id == "about a"
    assert filtering.search_with("a", 5, {"to": 1}).hits[0].doc_id == "about a {'to': 1}"


def test_runs_that_are_there_are_the_pilot(measured: Toy) -> None:
    policy = load_policy(measured.project.policy_file)
    found = ground(measured.layout, policy, Raced(9, 99))
    assert found.dataset == NAME
    assert found.pilots.keys() == {"tantivy"}
    assert found.at_hand.race == Raced(3, 20)
    assert len(found.at_hand.queries) == 41
    assert (len(found.at_hand.answerable), len(found.at_hand.negative)) == (41, 0)
    (step,) = plan(policy, found.at_hand, found.pilots)
    quality = next(one for one in step.needs if one.gate.name == "Quality")
    assert quality.alone is not None


def test_a_step_is_planned_for_each_arm_that_was_compared(measured: Toy) -> None:
    file = measured.project.policy_file.with_name("template.toml")
    file.write_text(HEAD + STEP + GATES)
    policy = load_policy(file)
    file.unlink()
    each = for_control(measured.layout, policy, "fts5")
    assert "tantivy" in [step.candidate for step in each.steps]
    assert {step.control for step in each.steps} == {"fts5"}
    with pytest.raises(EvidenceError, match="no arm is compared with nobody"):
        for_control(measured.layout, policy, "nobody")


@pytest.mark.slow
def test_what_processes_do_is_what_one_does(
    project: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, params = project.layout, project.params
    texts = [f"text {at} " * (at % 40) for at in range(120)]
    results = [layout.run(arm) for arm in ARMS] + [layout.again(arm) for arm in ARMS]
    results += [layout.per_query, layout.scores, layout.slices]

    def made(cache: Path) -> list[bytes]:
        for arm in ARMS:
            replay(layout, arm, project.cache, params.replay)
        score(layout, ARMS, params.score)
        found = [path.read_bytes() for path in results]
        return [*found, embed_all(texts, HashEmbedder(16), cache).tobytes()]

    alone = made(tmp_path / "one")
    monkeypatch.setattr(drive, "PART", 9)
    monkeypatch.setattr(bulk, "PART", 30)
    said: list[str] = []
    with closing(Processes(2, said.append)) as pool, using(pool):
        monkeypatch.setattr(drive, "observe", None)  # this process runs no query
        assert made(tmp_path / "two") == alone
    assert not said


def reading_late(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401  a table
    """Make the second who reads parts wait a moment before each."""
    read, waits, mine = found.read, iter((0.0, A_MOMENT_S)), local()

    def read_late(*given: Any) -> Any:  # noqa: ANN401  as the function
        mine.waits = getattr(mine, "waits", None) or next(waits, 0.0)
        sleep(mine.waits)
        return read(*given)

    monkeypatch.setattr(found, "read", read_late)


@pytest.mark.slow
def test_two_who_score_take_turns_with_the_parts(
    project: Toy, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first removed the parts that the other had not read yet."""
    reading_late(PART, monkeypatch)
    scoring = partial(score, project.layout, project.params.arms, project.params.score)
    first, second = at_once([scoring, scoring])
    assert first == second
    assert not project.layout.score_parts.exists()


@pytest.mark.slow
def test_two_who_replay_an_arm_take_turns_with_the_parts(
    project: Toy, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first removed the folder in which the other wrote a part."""
    reading_late(RUN_PART, monkeypatch)
    again = partial(replay, project.layout, "fts5", project.cache, project.params.replay)
    first, second = at_once([again, again])
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert list(first.rows()) == list(second.rows())
    assert not project.layout.parts("fts5").exists()
    check_run(project.layout, "fts5")


@pytest.mark.slow
def test_two_who_race_take_turns(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """They timed each other's work, and whoever was first removed the other's parts."""
    seen, inside = stage.read_part, []

    def alone(*given: Any) -> Any:  # noqa: ANN401  as the function
        inside.append(1)
        sleep(A_MOMENT_S / 5)
        most.append(len(inside))
        found = seen(*given)
        inside.pop()
        return found

    most: list[int] = []
    monkeypatch.setattr(stage, "read_part", alone)
    with ThreadPoolExecutor(2) as threads:
        for found in [threads.submit(project.race) for _ in range(2)]:
            found.result()
    assert max(most) == 1


def test_two_decisions_are_both_in_the_history(tmp_path: Path, at_once: AtOnce) -> None:
    path = tmp_path / "toy.jsonl"
    entries = [entry(number) for number in range(2)]
    assert at_once([partial(trends.add, path, one) for one in entries]) == [True, True]
    written = [one.decision_sha256 for one in trends.read(path)]
    assert written == [one.decision_sha256 for one in entries]
