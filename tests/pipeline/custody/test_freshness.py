"""How old a run is: noted beside it, and refused where it is too old or nobody knows."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.pipeline.gate import decide_again, gate
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import (
    asked_since,
    check_all,
    index_files,
    note_replayed,
    replayed,
    replayed_at,
)
from harness.pipeline.replay import import_run, replay
from harness.policy.load import load_policy
from tests.make.toy import CANDIDATE, CONTROL, NAME, Toy

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HINT = rf"Run: harness stage replay --dataset {NAME} --arm {CONTROL}"


def aged(project: Toy, days: float) -> None:
    """Make the control's run so many days old."""
    note_replayed(project.layout, CONTROL, datetime.now(UTC) - timedelta(days=days))


def test_a_replay_notes_when_it_began_beside_files_that_do_not_move(project: Toy) -> None:
    layout = project.layout
    tracked = [layout.run(CONTROL), layout.again(CONTROL), layout.run_receipt(CONTROL)]
    before = [path.read_bytes() for path in tracked]
    aged(project, 1)
    began = datetime.now(UTC).replace(microsecond=0)
    replay(layout, CONTROL, project.cache, project.params.replay)
    assert datetime.fromisoformat(replayed_at(layout, CONTROL) or "") >= began
    assert [path.read_bytes() for path in tracked] == before
    assert layout.replayed(CONTROL).is_relative_to(layout.today)


def test_the_oldest_answer_counts(tmp_path: Path) -> None:
    assert asked_since(NOW, tmp_path / "none") == NOW
    for name, hours in (("a", 3), ("b", 50)):
        path = tmp_path / "5" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("answers")
        then = (NOW - timedelta(hours=hours)).timestamp()
        os.utime(path, (then, then))
    assert asked_since(NOW, tmp_path) == NOW - timedelta(hours=50)


def test_an_imported_run_is_as_old_as_its_taking_in(project: Toy, tmp_path: Path) -> None:
    (tmp_path / "x.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    import_run(project.layout, "x", tmp_path / "x.trec")
    at = datetime.fromisoformat(replayed_at(project.layout, "x") or "")
    assert timedelta(0) <= datetime.now(UTC) - at < timedelta(minutes=5)


@pytest.mark.slow
def test_a_run_that_is_too_old_is_not_judged(project: Toy) -> None:
    aged(project, 1.9)
    project.decide()
    aged(project, 2.1)
    says = rf"fts5\.parquet: .* 2 days old, and the policy takes none older than 2.*{HINT}"
    with pytest.raises(EvidenceError, match=says):
        project.decide()
    assert not project.layout.decision.exists()
    file = project.root / "policy" / "toy.toml"
    with pytest.raises(EvidenceError, match=says):
        decide_again(project.layout, load_policy(file), file, control="", now=datetime.now(UTC))


@pytest.mark.slow
def test_an_arm_that_no_gate_looks_at_may_be_old(project: Toy) -> None:
    now = datetime.now(UTC)
    note_replayed(project.layout, "hash-hybrid", now - timedelta(days=9))
    gate(project.layout, project.project.subject(NAME), now=now)


@pytest.mark.parametrize("spoil", ["gone", "of another run"])
def test_a_run_of_unknown_age_is_not_judged(project: Toy, spoil: str) -> None:
    if spoil == "gone":
        project.layout.replayed(CONTROL).unlink()
    else:
        other = project.layout.replayed(CANDIDATE).read_bytes()
        project.layout.replayed(CONTROL).write_bytes(other)
    assert replayed_at(project.layout, CONTROL) is None
    with pytest.raises(EvidenceError, match=rf"may be of any age\. {HINT}"):
        project.decide()


def test_a_note_that_is_none_is_named(project: Toy) -> None:
    project.layout.replayed(CONTROL).write_text("[]")
    with pytest.raises(BadFile, match=rf"fts5\.json: .*{HINT}"):
        replayed(project.layout, CONTROL)


@pytest.mark.slow
def test_the_decision_says_it_and_rests_on_it(project: Toy) -> None:
    project.decide()
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    shown = about["provenance"]["replayed_at"]
    assert shown[CONTROL] == replayed_at(project.layout, CONTROL)
    assert b"replayed_at" not in project.layout.findings.read_bytes()
    aged(project, 1)
    with pytest.raises(EvidenceError, match=r"fts5\.json: was changed since"):
        check_all(project.layout.decision_receipt, "Run it")


def test_an_engine_that_runs_elsewhere_has_no_index_that_is_counted(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "root", tmp_path / "today", tmp_path / "cache")
    folder = layout.index("over_http")
    folder.mkdir(parents=True)
    for name in ("manifest.json", "ids.json"):
        (folder / name).write_text("{}")
    assert index_files(layout, "over_http") is None
    (folder / "segment.bin").write_bytes(b"x")
    assert index_files(layout, "over_http") is not None
