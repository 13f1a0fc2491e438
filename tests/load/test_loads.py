"""A load from end to end on a small project: history, resuming, evidence and its gate."""

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import AtRate, Load
from harness.core.gate import Finding, Verdict
from harness.core.run import Row, Run, Status
from harness.corpus.runs import read_run, write_run
from harness.load import history_of, page_of, receipt_of, results, trials_of
from harness.load import stage as loading
from harness.load.rates import Highest
from harness.load.stage import LoadRequest, load, verdict
from harness.load.trial import TRIALS, Histogram, Record, Trial
from harness.load.workers import TrialPlan, WallClock, WorkerResult, work
from harness.pipeline import experiments
from harness.pipeline.experiments import note_timed
from harness.pipeline.index import Opener
from harness.pipeline.receipts import note_run, read_manifest
from harness.pipeline.report import report
from harness.pipeline.verify import verify, verify_pages
from harness.policy.looks import looks
from tests.make import gate_inputs
from tests.make.toy import GATES, HEAD, STEP, Toy
from tests.report.test_live import MS, trial

slow = pytest.mark.slow
Done = tuple[Toy, results.LoadReport]
pytestmark = pytest.mark.usefixtures("none_drawn")
WANTED = LoadRequest(("fts5", "tantivy"), (40.0,), None, "harness load")
"""Two arms and the first one's twin, in a closed loop and at one rate: six trials."""


def loaded(project: Toy, wanted: LoadRequest = WANTED, **changed: Any) -> results.LoadReport:  # noqa: ANN401
    params = project.params.load.model_copy(update={"seconds": 0.1, **changed})
    return load(project.layout, wanted, project.cache, params, 10.0)


class Alone:
    """What a crew shares that is one process: this one, for a process takes long to start."""

    def __init__(self) -> None:
        self._numbers = count()

    def take(self) -> int:
        return next(self._numbers)

    def begin(self) -> int:
        return WallClock().now_ns()


RAN: list[str] = []
"""Arms of the trials that were run."""


def in_here(
    opener: Opener, plan: TrialPlan, processes: int, threads: int
) -> tuple[WorkerResult, ...]:
    del processes
    RAN.append(opener.arm)
    return (work(opener, plan, threads, 0, Alone()),)  # type: ignore[arg-type]


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loading, "run_pool", in_here)
        patched.setattr(loading, "LOOK_S", 0.01)
        patched.setattr("gc.get_freeze_count", lambda: 1)  # the tests are frozen: a long count
        yield


@pytest.fixture
def counted() -> list[str]:
    RAN.clear()
    return RAN


@pytest.fixture(scope="module")
def done(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Done:
    project = measured.copied(tmp_path_factory.mktemp("loaded") / "project")
    return project, loaded(project)


@slow
def test_each_arm_is_tried_at_each_rate_and_the_first_one_twice(done: Done) -> None:
    project, report = done
    arms = ("fts5", False), ("fts5", True), ("tantivy", False)
    places = {((p.arm, p.twin), p.rate) for p in report.points}
    assert places == set(product(arms, (None, 40.0)))
    assert all(point.response.count for point in report.points)
    assert set(report.noise) == {40.0}
    counts = {p.records[0].trial.arrivals for p in report.points if p.rate == 40.0}
    assert len(counts) == 1, "arms get the same arrivals in a round"
    assert page_of(project.layout).read_text().startswith("<!doctype html>")


@slow
def test_the_history_holds_every_trial_and_says_where_it_ran(done: Done) -> None:
    project, report = done
    records = TRIALS.read(history_of(project.layout))
    assert len(records) == 6
    points = {(one.arm, one.rate, one.twin): one for one in report.points}
    for record in records:
        assert record.about["machine"] == report.machine
        assert record.about["fingerprint"] == read_manifest(project.layout, record.arm).fingerprint
        assert 0 <= record.about["busy"] <= 1
        assert record.trial.cpu_ns > 0
        point = points[record.arm, record.rate, record.twin]
        assert point.response.encoded() == record.trial.response.encoded()


@slow
def test_an_interrupted_load_goes_on(
    project: Toy, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def four(opener: Opener, plan: TrialPlan, *workers: int) -> tuple[WorkerResult, ...]:
        if len(counted) == 4:
            raise KeyboardInterrupt
        return in_here(opener, plan, *workers)

    monkeypatch.setattr(loading, "run_pool", four)
    with pytest.raises(KeyboardInterrupt):
        loaded(project)
    assert len(counted) == 4
    assert not history_of(project.layout).exists()
    monkeypatch.setattr(loading, "run_pool", in_here)
    loaded(project)
    assert len(counted) == len(TRIALS.read(history_of(project.layout))) == 6


@slow
def test_an_answer_that_is_not_the_runs_stops_it(project: Toy) -> None:
    path = project.layout.run("tantivy")
    rows = [Row(row.query_id, Status.ANSWERED, (), row.served_by) for row in read_run(path).rows()]
    write_run(Run.of("tantivy", rows), path)
    note_run(project.layout, "tantivy")
    with pytest.raises(EvidenceError, match=r"tantivy: \d+ of \d+ answers were not those of"):
        loaded(project)


def searched(project: Toy, budget_ns: int, **changed: float) -> tuple[results.LoadReport, Highest]:
    """Search the highest rate of one arm; return the report, and what was found."""
    one = replace(WANTED, arms=("tantivy",), budget_ns=budget_ns)
    report = loaded(project, one, **{"seconds": 0.05, **changed})
    return report, report.highest["tantivy"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a trial of a few arrivals."""
    monkeypatch.setattr(loading, "FEWEST_ARRIVALS", 8)


@slow
@pytest.mark.usefixtures("short")
def test_a_search_finds_a_rate_or_says_why_not(project: Toy) -> None:
    _, found = searched(project, 40 * MS)
    assert len(found.tried) > 1
    assert found.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    purposes = {record.purpose for record in TRIALS.read(history_of(project.layout))}
    assert purposes == {"curve", "search"}
    report, hopeless = searched(project, 1)
    assert hopeless.verdict is verdict(report) is Verdict.FAIL


@slow
@pytest.mark.usefixtures("short")
def test_a_miss_of_a_late_generator_is_no_miss(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Record, "objection", lambda one, _: "late" * (one.purpose == "search"))
    assert "3 trials in a row" in searched(project, 1)[1].reason


@slow
def test_a_noisy_machine_is_not_searched(project: Toy, counted: list[str]) -> None:
    report, found = searched(project, 40 * MS, max_noise=1.0000001)
    assert (found.verdict, found.tried) == (Verdict.INCONCLUSIVE, ())
    assert "too noisy" in found.reason
    assert len(counted) == 4
    assert verdict(report) is Verdict.INCONCLUSIVE


@slow
def test_a_trial_that_does_not_count_is_no_pass(done: Done) -> None:
    _, report = done
    spoilt = replace(report.points[0], objections=("late",))
    for other in (replace(report, noise={}), replace(report, points=(spoilt,))):
        assert verdict(other) is Verdict.INCONCLUSIVE
    quiet = {40.0: report.noise[40.0]._replace(verdict=Verdict.PASS)}
    assert verdict(replace(report, noise=quiet)) is Verdict.PASS
    assert loading.PERCENT == 99.0


NARROW = HEAD.replace("attempts = 10", "attempts = 1")
"""Of two rounds a median has an interval of 50 %, the whole of one attempt."""
QUEUEING = """
[[step.gate]]
name = "Nobody waits long"
rule = "queueing"
rate = 40
percent = "p50"
max_ms = 5000
reference_ms = 1
max_scale = 1000
max_noise = 1000
max_busy = 0.5
min_arrivals = 2
"""


@pytest.fixture(scope="module")
def judged_once(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Load both arms in two rounds, on a machine that looks quiet."""
    project = measured.copied(tmp_path_factory.mktemp("loaded") / "project")
    project.layout.race_receipt.unlink(missing_ok=True)
    shutil.rmtree(project.layout.experiments, ignore_errors=True)
    project.policy(NARROW + STEP + GATES + QUEUEING)
    project.compare_again()
    params = project.params.load.model_copy(update={"rounds": 2, "seconds": 0.15})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loading, "run_pool", in_here)
        patched.setattr("psutil.cpu_percent", lambda _: 0.0)
        load(project.layout, WANTED, project.cache, params, 10.0)
    return project


@pytest.fixture
def kept(judged_once: Toy, tmp_path: Path) -> Toy:
    return judged_once.copied(tmp_path / "project")


def queueing(project: Toy) -> Finding:
    return {one.gate: one for one in project.decide().findings}["Nobody waits long"]


def changed(project: Toy, old: str, new: str) -> None:
    """Write other trials."""
    path = trials_of(project.layout)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@slow
def test_a_load_test_is_judged_and_derived_again(kept: Toy) -> None:
    said = queueing(kept)
    assert said.verdict is Verdict.PASS, said.reason
    verify(kept.layout)
    changed(kept, '"arrivals": ', '"arrivals": 1')
    with pytest.raises(EvidenceError, match=r"load_trials\.jsonl"):
        verify(kept.layout)
    assert queueing(kept).verdict is not Verdict.PASS
    trials_of(kept.layout).unlink()
    assert queueing(kept).remedy == "run: harness load --arm fts5 --arm tantivy --rate 40"


@slow
def test_each_load_is_a_look(kept: Toy) -> None:
    assert queueing(kept).verdict is Verdict.PASS
    changed(kept, '"busy": 0.0', '"busy": 0.01')
    note_timed(kept.layout, "load", ("fts5", "tantivy"), datetime.now(UTC))
    changed(kept, '"busy": 0.01', '"busy": 0.02')
    kept.decide()
    log = experiments.read(kept.layout).experiments
    assert [one.kind for one in log] == ["load", "gate", "load", "gate"]
    policy = kept.project.policy()
    seen = looks(log, policy, policy.steps[0], log[-1].inputs)
    assert (seen.untimed, seen.timed, seen.unjudged) == (1, 3, 1)
    assert seen.since == ("another load test",)


@slow
def test_a_load_is_of_the_runs_and_indexes_at_hand(kept: Toy) -> None:
    read = results.last(kept.layout)
    assert read is not None
    found = results.load_of(*read)
    assert set(found.at) == {"fts5", "tantivy"}
    for at in (rates[40.0] for rates in found.at.values()):
        assert at.system_ns["p99"].shape == at.busy.shape == (2,), "its twin is not in it"
        assert (at.system_ns["p50"] <= at.system_ns["p99"]).all()
    assert found.noise[40.0].shape == (2,)
    assert found.reference_ns.min() > MS / 100
    changed(kept, '"load": "', '"load": "x')
    with pytest.raises(BadFile, match="is not of the load"):
        results.last(kept.layout)
    changed(kept, '"load": "x', '"load": "')
    for path, old, new in (
        (kept.layout.run("tantivy"), b"PAR1", b"PAR2"),
        (kept.layout.manifest("tantivy"), b'"version": "', b'"version": "0'),
    ):
        raw = path.read_bytes()
        path.write_bytes(raw.replace(old, new, 1))
        assert results.last(kept.layout) is None
        path.write_bytes(raw)


@slow
def test_a_load_expires_as_other_evidence_does(kept: Toy) -> None:
    changed(kept, f'"at": "{datetime.now(UTC).year}', '"at": "2020')
    with pytest.raises(EvidenceError, match="older than"):
        kept.decide()


@slow
def test_what_was_not_answered_took_longer_than_any_budget(kept: Toy) -> None:
    trial = next(one.trial for one in TRIALS.read(trials_of(kept.layout)) if one.rate)
    assert trial.ends[Status.ANSWERED] == trial.response.count
    assert results.in_system_ns(trial, 95) == trial.response.percentile(95)
    missing = replace(trial, arrivals=2 * trial.arrivals)
    assert results.in_system_ns(missing, 95) == math.inf
    assert results.in_system_ns(missing, 45) == trial.response.percentile(90)


SETTINGS: dict[str, Any] = {
    "rate": 10.0, "percent": "p99", "max_ms": 5.0, "reference_ms": 1.0, "max_scale": 2,
    "max_noise": 1.5, "max_busy": 0.1, "min_arrivals": 100,
}  # fmt: skip


def at_rate(*p99_ms: float, **changes: Any) -> AtRate:  # noqa: ANN401  fields of AtRate
    """Six rounds or more; the other percentiles are quicker."""
    found = np.array(p99_ms) * MS
    quiet = AtRate({"p50": found / 9, "p95": found / 3, "p99": found}, np.zeros(6), (), 150)
    return replace(quiet, **changes)


def load_queueing(rounds: AtRate, **changes: Any) -> Load:  # noqa: ANN401  fields of Load
    quiet = Load(
        at={"new": {10.0: rounds}}, noise={10.0: np.ones(6)}, reference_ns=np.full(5, 1_000_000),
        machine=gate_inputs.MACHINE, loaded_at="2026-11-01T12:00:00+00:00",
    )  # fmt: skip
    return replace(quiet, **changes)


def judged(found: Load | None, **settings: object) -> Finding:
    evidence = gate_inputs.evidence(10, load=found)
    return gate_inputs.judge("queueing", evidence, **SETTINGS | settings)


@pytest.mark.parametrize(
    ("p99_ms", "verdict"),
    [((2, 3, 3, 4, 4, 4.9), Verdict.PASS), ((2, 3, 3, 4, 4, 5.1), Verdict.INCONCLUSIVE),
     ((5.1, 6, 6, 7, 8, 9), Verdict.FAIL), ((5.1, 6, 6, 7, 8, math.inf), Verdict.FAIL),
     ((math.inf,) * 6, Verdict.FAIL)],
)  # fmt: skip
def test_rounds_lie_on_one_side_of_the_budget(p99_ms: tuple[float, ...], verdict: Verdict) -> None:
    finding = judged(load_queueing(at_rate(*p99_ms)))
    assert finding.verdict is verdict, finding.reason
    assert (finding.timed, finding.unit, finding.limit) == (True, "ms", 5.0)


def test_the_percentile_is_the_one_that_is_asked_for() -> None:
    rounds = at_rate(*[9.0] * 6)
    assert judged(load_queueing(rounds)).verdict is Verdict.FAIL
    assert judged(load_queueing(rounds), percent="p95").verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("reference_ns", "verdict", "why"),
    [(1_600_000, Verdict.PASS, "The budget there is 8 ms"),
     (2_100_000, Verdict.INCONCLUSIVE, "2.1 times as long")],
)  # fmt: skip
def test_a_slower_machine_has_a_longer_budget_up_to_a_point(
    reference_ns: int, verdict: Verdict, why: str
) -> None:
    slower = load_queueing(at_rate(*[7.0] * 6), reference_ns=np.full(5, reference_ns))
    finding = judged(slower)
    assert finding.verdict is verdict
    assert why in finding.reason


COMMAND = "run: harness load --arm old --arm new --rate 10"


ONES = at_rate(*[1.0] * 6)


@pytest.mark.parametrize(
    ("found", "why", "remedy"),
    [
        (None, "no load of these indexes", COMMAND),
        (load_queueing(ONES, at={"new": {20.0: at_rate(1)}}), "had 20", COMMAND),
        (load_queueing(ONES, noise={10.0: np.array([1, 0.6])}), "1.67 times", COMMAND),
        (load_queueing(replace(ONES, busy=np.array([0.0, 0.2]))), "used 20.0%", COMMAND),
        (load_queueing(replace(ONES, arrivals=99)), "a round had 99 arrivals", "--seconds 12"),
        (load_queueing(at_rate(*[1.0] * 5, objections=("late",))),
         "1 rounds do not count: late", "N"),
    ],
)  # fmt: skip
def test_what_says_nothing_is_inconclusive_and_names_the_command(
    found: Load | None, why: str, remedy: str
) -> None:
    said = judged(found)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert why in said.reason
    assert said.remedy.endswith(remedy)


SIX = (1, 2, 3, 4, 5, 6)


def record(arm: str, number: int, time_ms: int, *, twin: bool = False, strays: int = 0) -> Record:
    times = Histogram.of([time_ms * MS] * 20)
    told = replace(trial(1), arrivals=20, response=times, lag_ns=0, strays=strays)
    return Record(arm, twin=twin, rate=50.0, number=number, purpose="curve", trial=told, about={})


def test_a_ratio_is_of_the_same_round() -> None:
    old = [record("old", number, 10 * number) for number in SIX]
    new = [record("new", number, 30 * number) for number in reversed(SIX)]
    new_point, old_point = results.points([*old, *new], "old", max_lag=0.5, confidence=0.95)
    assert (new_point.arm, old_point.arm) == ("new", "old")
    ratio, p99 = new_point.ratio, new_point.p99
    assert ratio is not None
    assert p99 is not None
    found = ratio.low, ratio.high, p99.value, new_point.service.percentile(100)
    assert found == pytest.approx((3, 3, 105 * MS, 2 * MS), rel=0.01)
    assert new_point.response.count == 120


def test_a_round_that_does_not_count_is_in_no_number() -> None:
    seven = (*SIX, 7)
    old = [record("old", number, 10) for number in seven]
    new = [record("new", number, 30 if number < 7 else 900, strays=number // 7) for number in seven]
    point = results.points([*old, *new], "old", max_lag=0.5, confidence=0.95)[0]
    assert point.objections == ("1 answer was not those of the arm's run",)
    assert point.ratio is not None
    assert (len(point.records), point.ratio.n) == (6, 6)
    assert point.ratio.high == pytest.approx(3, rel=0.01)
    assert point.response.percentile(100) == pytest.approx(30 * MS, rel=0.01)


@slow
def test_a_round_that_does_not_count_is_in_no_evidence(
    done: Done,
) -> None:
    told = {"reference_ns": [1], "machine": "m", "at": "2026-01-01", "busy": 0.1}
    trials = [
        replace(record("old", number, time_ms, twin=twin, strays=strays), about=told)
        for number, time_ms, twin, strays in (
            (1, 10, False, 0), (1, 20, True, 0), (2, 10, False, 0), (2, 90, True, 1)
        )
    ]  # fmt: skip
    found = results.load_of(trials, done[0].params.load)
    assert found.noise[50.0].tolist() == [pytest.approx(2, rel=0.01)]
    assert found.at["old"][50.0].system_ns["p50"] == pytest.approx([10 * MS] * 2, rel=0.01)


def test_noise_is_that_of_the_first_arm_against_itself() -> None:
    def p99(one: Trial) -> float | None:
        return one.response.percentile(99)

    first = [record("old", number, 10) for number in SIX]
    second = [record("old", number, 10 + number, twin=True) for number in SIX]
    other = [record("new", number, 99) for number in SIX]
    ((rate, noise),) = results.twin_ratios([*first, *second, *other], 0.5, p99).items()
    assert (rate, max(noise)) == pytest.approx((50.0, 1.6), rel=0.01)
    assert results.twin_ratios([*first, *other], 0.5, p99) == {}


@slow
def test_a_load_beside_a_page_is_part_of_it_and_one_after_it_is_not(
    done: Done, tmp_path: Path
) -> None:
    project = done[0].copied(tmp_path / "project")
    out, subject = project.root / "reports", {project.layout: project.project.subject("toy")}
    project.decide()
    report(subject, out, out / "receipt.json")
    (before,) = verify_pages(out, project.layout)
    receipt = receipt_of(project.layout)
    whole = receipt.read_text()
    receipt.unlink()
    with pytest.raises(EvidenceError, match=r"index\.html: is not what its evidence gives"):
        verify_pages(out, project.layout)
    report(subject, out, out / "receipt.json")
    receipt.write_text(whole)
    assert verify_pages(out, project.layout) == (before,)
