"""A run is made again: clocks, promotions, pages, recounts and vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.gate import Outcome
from harness.corpus.runs import read_run, write_run
from harness.measures import kernels
from harness.migrate.ledger import evidence
from harness.pipeline.gate import gate, read_decision
from harness.pipeline.index import VECTORS, keep_vectors, take_vectors
from harness.pipeline.layout import Layout
from harness.pipeline.race import read_race
from harness.pipeline.receipts import _md5 as md5
from harness.pipeline.receipts import (
    note_replayed,
    read_manifest,
    replayed,
)
from harness.pipeline.verify import check_values, verify, verify_pages
from harness.policy.age import check_past
from harness.replay.machine import vector_flags
from harness.trust import reproduce as stage
from harness.trust.reproduce import record, reproduce
from tests.make.forging import forge
from tests.make.toy import ARMS, CONTROL, GATES, HEAD, NAME, QUERIES, RACED, STEP, Toy

pytestmark = pytest.mark.slow
AHEAD = timedelta(hours=40)


@pytest.fixture(scope="module")
def decided(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    made = measured.copied(tmp_path_factory.mktemp("clocks") / "project")
    made.policy(HEAD + STEP + GATES + RACED)
    made.decide()
    return made


@pytest.fixture
def held(decided: Toy, tmp_path: Path) -> Toy:
    return decided.copied(tmp_path / "held")


def moved(by: timedelta) -> Callable[[dict[str, Any]], None]:
    """Move when it was decided, and when it expires."""

    def edit(about: dict[str, Any]) -> None:
        of = about["provenance"]
        for name in ("decided_at", "expires_at"):
            of[name] = (datetime.fromisoformat(of[name]) + by).isoformat(timespec="seconds")

    return edit


def test_a_decision_of_the_future_is_refused_by_all_that_read_it(held: Toy) -> None:
    forge(held.layout, moved(AHEAD))
    with pytest.raises(BadFile, match=r"decision\.json: .* from the future .*harness gate"):
        verify(held.layout)
    found = evidence(held.layout, held.project.policy_file, lambda: None)
    assert found.decision is None
    assert "from the future" in found.refused


def test_a_replay_of_the_future_is_refused(held: Toy) -> None:
    note_replayed(held.layout, CONTROL, datetime.now(UTC) + AHEAD)
    with pytest.raises(BadFile, match=r"from the future .*harness stage replay"):
        replayed(held.layout, CONTROL)


def test_a_race_of_the_future_is_refused(held: Toy) -> None:
    table = pq.read_table(held.layout.times)
    ahead = (datetime.now(UTC) + AHEAD).isoformat().encode()
    about = {**(table.schema.metadata or {}), b"raced_at": ahead}
    pq.write_table(table.replace_schema_metadata(about), held.layout.times)
    with pytest.raises(EvidenceError, match=r"from the future .*harness race"):
        read_race(held.layout)


@pytest.mark.parametrize("made_at", ["2026-11-02", "yesterday", "2026-11-02T12:05:01+00:00"])
def test_a_time_that_is_none_or_to_come_is_refused(made_at: str) -> None:
    with pytest.raises(HarnessError):
        check_past(made_at, now=datetime(2026, 11, 2, 12, tzinfo=UTC))


LATER = """
[[step]]
name = "back"
control = "tantivy"
candidate = "fts5"
taken = false

[[step.gate]]
name = "Who answers"
rule = "identity"
"""


@pytest.fixture(scope="module")
def taken(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Take the step by the decision that promoted it, and let another one follow."""
    made = measured.copied(tmp_path_factory.mktemp("taken") / "project")
    made.untimed()
    assert made.decide().outcome is Outcome.PROMOTE
    (made.root / "policy" / "kept.json").write_bytes(made.layout.decision.read_bytes())
    name(made)
    made.judge_again()
    return made


@pytest.fixture
def chain(taken: Toy, tmp_path: Path) -> Toy:
    """Copy it, for a test to spoil."""
    return taken.copied(tmp_path / "project")


def name(project: Toy, sha256: str | None = None) -> str:
    """Write the policy whose step was taken by the decision that was kept."""
    baseline = read_manifest(project.layout, CONTROL).fingerprint
    sha256 = sha256 or digest.of_file(project.root / "policy" / "kept.json")
    taken = (
        f'taken = true\nbaseline = "{baseline}"\n'
        f'accepted = "kept.json"\naccepted_sha256 = "{sha256}"'
    )
    project.policy(HEAD + STEP.replace("taken = false", taken) + GATES + LATER)
    return sha256


def decided_promotion(project: Toy) -> Any:  # noqa: ANN401  what json gives back
    gate(project.layout, project.project.subject(NAME), now=datetime.now(UTC))
    return json.loads(project.layout.decision.read_text())["datasets"][0]


def changed(project: Toy, change: Any) -> None:  # noqa: ANN401  any function
    """Change the decision that was kept, and let the policy name its new digest."""
    kept = project.root / "policy" / "kept.json"
    written = json.loads(kept.read_text())
    change(written["datasets"][0])
    kept.write_text(json.dumps(written))
    name(project)


def test_the_next_decision_names_the_one_that_accepted_its_control(chain: Toy) -> None:
    sha256 = digest.of_file(chain.root / "policy" / "kept.json")
    first, second = decided_promotion(chain)["steps"]
    assert (first["accepted_by"], second["accepted_by"]) == ("", sha256)
    read, _ = read_decision(chain.layout)
    assert [one.accepted_by for one in read] == ["", sha256]


def test_other_bytes_are_refused(chain: Toy) -> None:
    with (chain.root / "policy" / "kept.json").open("a") as out:
        out.write(" ")
    says = r"kept\.json: is \w{12}, and step tantivy was taken by \w{12}\. Bring back"
    with pytest.raises(EvidenceError, match=says):
        decided_promotion(chain)
    assert not chain.layout.decision.exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda of: of["steps"][0].update(outcome="hold"), "says hold of step tantivy"),
        (lambda of: of["steps"][0].update(control="dense"), "decided on dense -> tantivy"),
        (lambda of: of["steps"][0].update(step="none"), "says nothing of step tantivy on toy"),
        (lambda of: of.update(dataset="other"), "says nothing of step tantivy on toy"),
        (lambda of: of.pop("provenance"), "is not a decision"),
        (
            lambda of: of["provenance"]["arms"]["tantivy"].update(fingerprint="f" * 64),
            r"step back is judged against tantivy \w{12}, and .* accepted ffffffffffff",
        ),
    ],
)
def test_a_decision_that_did_not_accept_it_is_refused(chain: Toy, change: Any, says: str) -> None:  # noqa: ANN401  a lambda
    changed(chain, change)
    with pytest.raises((EvidenceError, BadFile), match=says):
        decided_promotion(chain)


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


def said(project: Toy) -> str:
    (found,) = verify_pages(project.root / "reports", project.layout)
    return found.said


def test_all_of_it_is_counted(project: Toy) -> None:
    assert check_values(project.layout) == 3 * 4 * 41


def test_a_kernel_that_is_wrong(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kernels.evaluate
    monkeypatch.setattr(kernels, "evaluate", lambda *given: np.minimum(honest(*given) + 1e-6, 1))
    project.judge_again(timed=True)
    project.decide()
    with pytest.raises(EvidenceError, match="but ir-measures says"):
        verify(project.layout)
    verify(project.layout, deep=False)


def test_what_one_machine_kept_another_one_uses(project: Toy, tmp_path: Path) -> None:
    layout: Layout = project.layout
    root, cache = project.root, tmp_path / "cache"
    assert take_vectors(root, layout, "dense", cache) is None, "there is no record"
    keep_vectors(root, layout, ["fts5", "hash-hybrid", "dense", "hybrid"], tmp_path / "first")
    made = "all texts by one model, queries of the hybrid by another, and words have none"
    assert len(list((root / VECTORS).iterdir())) == 2, made
    for name in ("dense", "hybrid"):
        said = take_vectors(root, layout, name, cache)
        assert said is not None
        assert said.used
    for name in ("fts5", "hash-hybrid"):
        assert take_vectors(root, layout, name, cache) is None
