"""Results of this machine beside the recorded ones, and answers of now."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from harness.core.errors import EvidenceError
from harness.core.run import Status
from harness.corpus.runs import read_run, write_run
from harness.pipeline.index import note_files
from harness.pipeline.receipts import _md5 as md5
from harness.pipeline.receipts import note_replayed, note_run
from harness.pipeline.verify import verify
from harness.replay.machine import vector_flags
from harness.trust import reproduce as stage
from tests.make.toy import ARMS, CANDIDATE, CONTROL, NAME, QUERIES, Toy
from tests.pipeline.test_attacks import decided, held, stale_score, swapped

__all__ = ["decided", "held"]
pytestmark = pytest.mark.slow


@pytest.fixture
def recorded(project: Toy) -> Toy:
    """Judge, and record what came out as DVC and we do."""
    project.decide()
    outs = [project.layout.run(arm) for arm in ARMS] + [project.layout.per_query]
    paths = [path.relative_to(project.root).as_posix() for path in outs]
    entries = [{"path": path, "md5": md5(project.root / path)} for path in paths]
    lock = {"stages": {f"replay@{NAME}": {"deps": [], "outs": entries}}}
    (project.root / "dvc.lock").write_text(yaml.safe_dump(lock))
    stage.record(project.root, project.layout)
    return project


def test_an_output_that_differs_is_named(recorded: Toy) -> None:
    path = recorded.layout.run("tantivy")
    write_run(swapped(read_run(path)), path)
    found = stage.reproduce(recorded.root, recorded.layout)
    assert not found.exact
    assert found.differ == (f"replay@{NAME}: build/{NAME}/runs/tantivy.parquet",)


def test_a_verdict_that_moved_is_named(recorded: Toy) -> None:
    path = recorded.layout.findings
    findings = json.loads(path.read_text())
    quality = next(one for one in findings["steps"][0]["findings"] if one["gate"] == "Quality")
    quality["verdict"] = "fail"
    path.write_text(json.dumps(findings))
    (line,) = stage.reproduce(recorded.root, recorded.layout).decisions
    assert line == "step tantivy, gate Quality: pass when recorded, fail here"


def test_what_differs_of_the_machine_is_named(
    recorded: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = vector_flags()
    monkeypatch.setattr(stage, "vector_flags", lambda: (*flags[:-1], "imagined"))
    monkeypatch.setattr("harness.pipeline.receipts.versions", lambda: {"numpy": "0.0"})
    monkeypatch.setattr("sqlite3.sqlite_version", "0.0")
    lines = stage.reproduce(recorded.root, recorded.layout).environment
    assert any("here with imagined" in line and flags[-1] in line for line in lines)
    assert any(line.startswith("numpy ") and line.endswith("0.0 here") for line in lines)
    assert any(line.startswith("SQLite ") and line.endswith("0.0 here") for line in lines)


def forged(project: Toy, **values: object) -> None:
    """Write another run of the candidate, and everything above it by the book."""
    layout = project.layout
    run = replace(read_run(layout.run(CANDIDATE)), **values)  # type: ignore[arg-type]
    write_run(run, layout.run(CANDIDATE))
    write_run(run, layout.again(CANDIDATE))
    note_run(layout, CANDIDATE)
    note_replayed(layout, CANDIDATE, datetime.now(UTC))


def asked_again(project: Toy, *arms: str) -> tuple[stage.Requeried, ...]:
    """Ask every query again."""
    both = {arm: arm for arm in arms or (CONTROL, CANDIDATE)}
    return stage.requery(project.layout, both, project.cache, count=QUERIES + 1, seed=1)


def test_an_honest_run_is_what_its_engine_shows(project: Toy) -> None:
    same = [stage.Requeried(arm, 41, 0, imported=False) for arm in (CONTROL, CANDIDATE)]
    assert asked_again(project) == (*same,)


def test_scores_and_lengths_are_compared_too(project: Toy) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    forged(project, raw_score=run.raw_score * 1.01)
    with pytest.raises(EvidenceError, match=r"hit 1, d\d+, has the score .* the engine gives"):
        asked_again(project)
    forged(project, raw_score=run.raw_score)
    asked_again(project)


def test_a_query_without_an_answer_is_counted_and_not_compared(project: Toy) -> None:
    status = read_run(project.layout.run(CANDIDATE)).status.copy()
    status[:3] = Status.TIMED_OUT
    forged(project, status=status)
    (said,) = asked_again(project, CANDIDATE)
    assert (said.same, said.unanswered) == (38, 3)


def test_an_index_that_was_changed_since_is_not_asked_again(project: Toy) -> None:
    (project.layout.index(CANDIDATE) / "more").write_text("x")
    note_files(project.layout.index(CANDIDATE))
    with pytest.raises(EvidenceError, match="its files are not those that the run of tantivy"):
        asked_again(project, CANDIDATE)


def test_an_edited_run_with_all_that_follows_is_what_no_engine_shows(held: Toy) -> None:
    stale_score(held)
    held.judge_again()
    held.decide(later_s=1)
    verify(held.layout)
    with pytest.raises(EvidenceError, match="the engine shows"):
        asked_again(held)
