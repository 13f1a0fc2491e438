"""A load from end to end on a small project: history, receipt, resuming, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.core.run import Row, Run, Status
from harness.corpus.runs import read_run, write_run
from harness.load import stage as module
from harness.load.paths import history_of, page_of
from harness.load.results import LoadReport
from harness.load.stage import LoadRequest, load, verdict
from harness.load.trial import TRIALS, Record
from harness.load.workers import TrialPlan, WallClock, WorkerResult, work
from harness.pipeline.index import Opener
from harness.pipeline.receipts import note_run, read_manifest
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
MS = 1_000_000
WANTED = LoadRequest(("fts5", "tantivy"), (40.0,), None, {}, "harness load")
"""Two arms and the first one's twin, in a closed loop and at one rate: six trials."""


def loaded(project: Toy, wanted: LoadRequest = WANTED, **changed: Any) -> LoadReport:  # noqa: ANN401
    params = project.params.load.model_copy(update=changed)
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
        patched.setattr(module, "run_pool", in_here)
        patched.setattr(module, "LOOK_S", 0.01)
        patched.setattr("gc.get_freeze_count", lambda: 1)  # the tests are frozen: a long count
        yield


@pytest.fixture
def counted() -> list[str]:
    RAN.clear()
    return RAN


@pytest.fixture(scope="module")
def done(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> tuple[Toy, LoadReport]:
    project = measured.copied(tmp_path_factory.mktemp("loaded") / "project")
    return project, loaded(project)


def test_each_arm_is_tried_at_each_rate_and_the_first_one_twice(
    done: tuple[Toy, LoadReport],
) -> None:
    project, report = done
    places = {(p.arm, p.twin, p.rate) for p in report.points}
    assert places == {
        (arm, twin, rate)
        for arm, twin in (("fts5", False), ("fts5", True), ("tantivy", False))
        for rate in (None, 40.0)
    }
    assert all(point.overall.count for point in report.points)
    assert set(report.noise) == {40.0}
    counts = {p.records[0].trial.arrivals for p in report.points if p.rate == 40.0}
    assert len(counts) == 1, "arms get the same arrivals in a round"
    assert page_of(project.layout).read_text().startswith("<!doctype html>")


def test_the_history_holds_every_trial_and_says_where_it_ran(
    done: tuple[Toy, LoadReport],
) -> None:
    project, report = done
    records = TRIALS.read(history_of(project.layout))
    assert len(records) == 6
    for record in records:
        assert record.about["machine"] == report.machine
        assert record.about["fingerprint"] == read_manifest(project.layout, record.arm).fingerprint
        assert 0 <= record.about["busy"] <= 1
        assert record.trial.cpu_ns > 0
        point = report.point(record.arm, record.rate, twin=record.twin)
        assert point is not None
        assert point.overall.encoded() == record.trial.overall.encoded()


def test_an_interrupted_load_goes_on(project: Toy, counted: list[str]) -> None:
    def four(opener: Opener, plan: TrialPlan, *workers: int) -> tuple[WorkerResult, ...]:
        if len(counted) == 4:
            raise KeyboardInterrupt
        return in_here(opener, plan, *workers)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "run_pool", four)
        with pytest.raises(KeyboardInterrupt):
            loaded(project)
    assert len(counted) == 4
    assert not history_of(project.layout).exists()
    loaded(project)
    assert len(counted) == 6
    assert len(TRIALS.read(history_of(project.layout))) == 6


def test_an_answer_that_is_not_the_runs_stops_it(project: Toy) -> None:
    path = project.layout.run("tantivy")
    rows = [Row(row.query_id, Status.ANSWERED, (), row.served_by) for row in read_run(path).rows()]
    write_run(Run.of("tantivy", rows), path)
    note_run(project.layout, "tantivy")
    with pytest.raises(EvidenceError, match=r"tantivy: \d+ of \d+ answers were not those of"):
        loaded(project)


def test_a_search_finds_a_rate_or_says_why_not(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEWEST_ARRIVALS", 8)
    one = replace(WANTED, arms=("tantivy",), budget_ns=40 * MS)
    report = loaded(project, one, resolution=4.0)
    found = report.highest["tantivy"]
    assert len(found.tried) > 1
    assert found.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    purposes = {record.purpose for record in TRIALS.read(history_of(project.layout))}
    assert purposes == {"curve", "search"}
    hopeless = loaded(project, replace(one, budget_ns=1), resolution=4.0)
    assert hopeless.highest["tantivy"].verdict is Verdict.FAIL
    assert verdict(hopeless) is Verdict.FAIL


def test_a_miss_of_a_late_generator_is_no_miss(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEWEST_ARRIVALS", 8)
    monkeypatch.setattr(Record, "objection", lambda one, _: "late" * (one.purpose == "search"))
    report = loaded(project, replace(WANTED, arms=("tantivy",), budget_ns=1))
    assert "3 trials in a row" in report.highest["tantivy"].reason


def test_a_noisy_machine_is_not_searched(project: Toy, counted: list[str]) -> None:
    one = replace(WANTED, arms=("tantivy",), budget_ns=40 * MS)
    report = loaded(project, one, max_noise=1.0000001)
    found = report.highest["tantivy"]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "too noisy" in found.reason
    assert found.tried == ()
    assert len(counted) == 4
    assert verdict(report) is Verdict.INCONCLUSIVE


def test_a_trial_that_does_not_count_is_no_pass(done: tuple[Toy, LoadReport]) -> None:
    _, report = done
    assert verdict(replace(report, noise={})) is Verdict.INCONCLUSIVE
    spoilt = replace(report.points[0], objections=("late",))
    assert verdict(replace(report, points=(spoilt,))) is Verdict.INCONCLUSIVE
    quiet = {40.0: report.noise[40.0]._replace(verdict=Verdict.PASS)}
    assert verdict(replace(report, noise=quiet)) is Verdict.PASS
    assert module.PERCENT == 99.0
