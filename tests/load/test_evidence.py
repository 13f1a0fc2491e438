"""The last load test is evidence: judged, counted as a look, and derived again."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.core.gate import Finding, Verdict
from harness.core.run import Status
from harness.load import trials as loading
from harness.load.files import TRIALS, in_system_ns, read_load, trials_of
from harness.load.stage import load
from harness.load.trials import LoadRequest
from harness.pipeline import experiments
from harness.pipeline.experiments import note_timed
from harness.pipeline.verify import verify
from harness.policy.looks import looks
from tests.load.test_stage import MS, in_here
from tests.make.toy import GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
WANTED = LoadRequest(("fts5", "tantivy"), (40.0,), None, {}, None, "harness load")
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
def done(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
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
def project(done: Toy, tmp_path: Path) -> Toy:
    return done.copied(tmp_path / "project")


def queueing(project: Toy) -> Finding:
    return {one.gate: one for one in project.decide().findings}["Nobody waits long"]


def changed(project: Toy, old: str, new: str) -> None:
    """Write other trials."""
    path = trials_of(project.layout)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_load_test_is_judged_and_derived_again(project: Toy) -> None:
    said = queueing(project)
    assert said.verdict is Verdict.PASS, said.reason
    verify(project.layout)
    changed(project, '"arrivals": ', '"arrivals": 1')
    with pytest.raises(EvidenceError, match=r"load_trials\.jsonl"):
        verify(project.layout)
    assert queueing(project).verdict is not Verdict.PASS
    trials_of(project.layout).unlink()
    assert queueing(project).remedy == "run: harness load --arm fts5 --arm tantivy --rate 40"


def test_a_load_that_the_policy_does_not_look_at_changes_no_decision(project: Toy) -> None:
    project.policy(NARROW + STEP + GATES)
    project.decide()
    trials_of(project.layout).unlink()
    verify(project.layout)


def test_each_load_is_a_look(project: Toy) -> None:
    assert queueing(project).verdict is Verdict.PASS
    changed(project, '"busy": 0.0', '"busy": 0.01')
    note_timed(project.layout, "load", ("fts5", "tantivy"), datetime.now(UTC))
    changed(project, '"busy": 0.01', '"busy": 0.02')
    project.decide()
    log = experiments.read(project.layout).experiments
    assert [one.kind for one in log] == ["load", "gate", "load", "gate"]
    policy = project.project.policy()
    seen = looks(log, policy, policy.steps[0], log[-1].inputs)
    assert (seen.untimed, seen.timed, seen.unjudged) == (1, 3, 1)
    assert seen.since == ("another load test",)


def test_a_load_is_of_the_runs_and_indexes_at_hand(project: Toy) -> None:
    found = read_load(project.layout)
    assert found is not None
    assert set(found.at) == {"fts5", "tantivy"}
    at = found.at["tantivy"][40.0]
    assert at.system_ns["p99"].shape == at.busy.shape == (2,)
    assert (at.system_ns["p50"] <= at.system_ns["p99"]).all()
    assert found.noise[40.0].shape == (2,)
    assert found.reference_ns.min() > MS / 100
    run = project.layout.run("tantivy")
    run.write_bytes(run.read_bytes() + b"x")
    assert read_load(project.layout) is None


def test_trials_of_another_load_are_refused(project: Toy) -> None:
    changed(project, '"load": "', '"load": "x')
    with pytest.raises(BadFile, match="is not of the load"):
        read_load(project.layout)


def test_a_load_expires_as_other_evidence_does(project: Toy) -> None:
    changed(project, f'"at": "{datetime.now(UTC).year}', '"at": "2020')
    with pytest.raises(EvidenceError, match="older than"):
        project.decide()


def test_what_was_not_answered_took_longer_than_any_budget(project: Toy) -> None:
    trial = next(one.trial for one in TRIALS.read(trials_of(project.layout)) if one.rate)
    assert trial.ends[Status.ANSWERED] == trial.overall.count
    assert in_system_ns(trial, 95) == trial.overall.percentile(95)
    missing = replace(trial, arrivals=2 * trial.arrivals)
    assert in_system_ns(missing, 95) == math.inf
    assert in_system_ns(missing, 45) == trial.overall.percentile(90)
