"""What another machine's results have in common with the recorded ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from harness.core.errors import BadFile
from harness.corpus.runs import read_run, write_run
from harness.pipeline.dvc import RECORD
from harness.pipeline.dvc import _md5 as md5
from harness.replay.machine import vector_flags
from harness.trust import reproduce as stage
from harness.trust.reproduce import record, reproduce
from tests.make.toy import ARMS, NAME, QUERIES, Toy

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
    record(project.root, project.layout, ARMS)
    return project


def spoil(project: Toy, arm: str) -> str:
    """Turn the first answer of an arm around, as other last bits of a vector may."""
    path = project.layout.run(arm)
    run = read_run(path)
    docs = run.docs.copy()
    low, high = int(run.offsets[0]), int(run.offsets[1])
    docs[low:high] = docs[low:high][::-1]
    write_run(replace(run, docs=docs), path)
    return run.query_ids[0]


def test_the_same_bytes_are_reproduced(recorded: Toy) -> None:
    found = reproduce(recorded.root, recorded.layout)
    assert found.exact
    assert found.compared == len(ARMS) + 1
    assert (found.decisions, found.moved, found.environment) == ((), (), ())
    assert set(found.first_hits.values()) == {(0, QUERIES + 1)}


def test_an_answer_that_differs_is_counted_at_its_arm(recorded: Toy) -> None:
    spoil(recorded, "tantivy")
    found = reproduce(recorded.root, recorded.layout)
    assert not found.exact
    assert found.differ == (f"replay@{NAME}: build/{NAME}/runs/tantivy.parquet",)
    assert found.first_hits["tantivy"] == (1, QUERIES + 1)
    assert found.first_hits["fts5"] == (0, QUERIES + 1)


def test_the_largest_difference_of_each_measure_is_named(recorded: Toy) -> None:
    path = recorded.layout.per_query
    rows = pq.read_table(path).to_pylist()
    of = [at for at, row in enumerate(rows) if row["value"] and row["measure"] == "nDCG@10"]
    rows[of[0]]["value"] += 0.25
    rows[of[1]]["value"] -= 0.5
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    (moved,) = reproduce(recorded.root, recorded.layout).moved
    at = rows[of[1]]
    assert (moved.measure, moved.arm, moved.query_id) == ("nDCG@10", at["arm"], at["query_id"])
    assert moved.difference == pytest.approx(-0.5)


def test_a_verdict_that_moved_is_named(recorded: Toy) -> None:
    path = recorded.layout.findings
    findings = json.loads(path.read_text())
    quality = next(one for one in findings["steps"][0]["findings"] if one["gate"] == "Quality")
    quality["verdict"] = "fail"
    path.write_text(json.dumps(findings))
    (line,) = reproduce(recorded.root, recorded.layout).decisions
    assert line == "step tantivy, gate Quality: pass when recorded, fail here"


def test_what_differs_of_the_machine_is_named(
    recorded: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = vector_flags()
    monkeypatch.setattr(stage, "vector_flags", lambda: (*flags[:-1], "imagined"))
    monkeypatch.setattr(stage, "versions", lambda: {"numpy": "0.0"})
    monkeypatch.setattr("sqlite3.sqlite_version", "0.0")
    lines = reproduce(recorded.root, recorded.layout).environment
    assert any("here with imagined" in line and flags[-1] in line for line in lines)
    assert any(line.startswith("numpy ") and line.endswith("0.0 here") for line in lines)
    assert any(line.startswith("SQLite ") and line.endswith("0.0 here") for line in lines)


@pytest.mark.parametrize("file", [stage.ABOUT, stage.FIRST])
def test_a_record_that_is_gone_or_garbage_is_refused(recorded: Toy, file: str) -> None:
    (recorded.root / RECORD / NAME / file).write_text("garbage")
    with pytest.raises(BadFile, match="harness reproduce --record"):
        reproduce(recorded.root, recorded.layout)


def test_without_a_lock_nothing_was_recorded(recorded: Toy) -> None:
    Path(recorded.root / "dvc.lock").unlink()
    with pytest.raises(BadFile, match=r"dvc\.lock"):
        reproduce(recorded.root, recorded.layout)
