"""The log of experiments, and pages and history of decisions."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.names import Experiment, Kind
from harness.pipeline import experiments
from harness.pipeline.experiments import FIRST, keep, read, shared, stock
from harness.pipeline.gate import decide_again
from harness.pipeline.layout import Layout
from harness.pipeline.report import report
from harness.report import trends
from harness.report.files import ReportFiles
from tests.cli.conftest import Harness, harness
from tests.make.toy import CANDIDATE, CONTROL, NAME, Toy

pytestmark = pytest.mark.slow


def test_a_race_and_a_decision_are_a_line_each(project: Toy) -> None:
    begun, race = read(project.layout).experiments
    assert (begun.kind, begun.number, begun.previous) == ("race begun", 1, FIRST)
    assert (race.kind, race.number, race.decision) == ("race", 2, None)
    assert race.inputs.runs.keys() == {CONTROL, CANDIDATE}
    project.decide()
    log = read(project.layout)
    *_, gate = log.experiments
    assert (gate.kind, gate.number) == ("gate", 3)
    assert gate.previous == log.until(3).head
    assert gate.inputs.times == race.inputs.times
    assert gate.inputs.runs == race.inputs.runs
    (said,) = json.loads(project.layout.decision.read_text())["summary"]["steps"]
    assert [(one.step, one.outcome) for one in gate.steps] == [("tantivy", said["outcome"])]
    assert gate.inputs.seeds == {"policy": 5, "race": 5}


def test_what_was_judged_on_is_kept_once(project: Toy) -> None:
    project.decide()
    project.decide(later_s=1)
    log = read(project.layout)
    assert len(list(project.layout.experiments.glob("inventory-*.json"))) == 1
    assert log.inventory_of(log.experiments[-1]) == stock(project.layout)
    kept = next(project.layout.experiments.glob("inventory-*.json"))
    kept.write_text(kept.read_text().replace('"q00":"', '"q0x":"', 1))
    assert log.inventory_of(log.experiments[-1]) is None
    kept.write_text("{")
    with pytest.raises(BadFile, match="not an inventory"):
        log.inventory_of(log.experiments[-1])


def test_judging_by_another_policy_is_noted_and_leaves_no_decision(project: Toy) -> None:
    project.decide()
    policy, file = project.project.policy(), project.project.policy_file
    decide_again(project.layout, policy, file, control="", now=datetime.now(UTC))
    *_, gate, other = read(project.layout).experiments
    assert (other.kind, other.decision) == ("decide", None)
    assert other.steps == gate.steps


def test_what_was_kept_is_how_a_log_begins(project: Toy, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "toy.jsonl"
    project.decide()
    layout = replace(project.layout, kept_log=kept)
    assert keep(layout, kept) == 3
    path = layout.log
    path.unlink()
    assert len(read(layout).lines) == 3
    experiments.add(
        layout, "race", read(layout).experiments[0].at, inputs=read(layout).experiments[0].inputs,
        inventory=stock(layout),
    )  # fmt: skip
    assert [one.number for one in read(layout).experiments] == [1, 2, 3, 4]
    assert keep(layout, kept) == 4
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(BadFile, match=r"has 1 experiments, and .* kept 4, of which"):
        read(layout)
    with pytest.raises(BadFile, match="kept 4"):
        keep(project.layout, kept)


def add(layout: Layout, first: Experiment, kind: Kind = "race") -> None:
    """Add a race to the log, as a run into a folder of its own does."""
    with experiments.writing(layout):
        experiments.add(layout, kind, first.at, inputs=first.inputs, inventory=stock(layout))


def test_runs_into_fresh_folders_go_on_with_the_log_of_the_data(
    project: Toy, tmp_path: Path
) -> None:
    first, log = read(project.layout).experiments[0], tmp_path / "toy.looks.jsonl"
    one, two, three = (
        shared(replace(project.layout, today=tmp_path / name), log) for name in ("1", "2", "3")
    )
    for layout, lines in ((one, 1), (two, 2), (one, 3)):
        add(layout, first)
        assert len(read(layout).lines) == lines
    assert log.read_text() == one.log.read_text()
    assert len(read(two).lines) == 2, "what a run has is what its decision was made with"
    log.unlink()
    add(one, first)
    assert len(log.read_text().splitlines()) == 4
    log.unlink()
    add(three, first, "load")
    with pytest.raises(BadFile, match=r"does not go on from .*toy\.looks\.jsonl"):
        add(two, first)


def test_what_cannot_be_logged_is_not_judged(project: Toy) -> None:
    (project.layout.log).unlink()
    for path in project.layout.experiments.iterdir():
        path.unlink()
    project.layout.experiments.rmdir()
    project.layout.experiments.write_text("a file")
    with pytest.raises(HarnessError, match="what is not logged is not judged"):
        project.decide()


# The pages of decisions, and their history


def made(project: Toy) -> ReportFiles:
    subjects = {project.layout: project.project.subject(NAME)}
    return report(subjects, project.root / "reports", project.root / "reports" / "receipt.json")


def test_five_files_and_a_receipt(project: Toy) -> None:
    project.decide()
    written = made(project)
    assert {path.name for path in written} == {
        "index.html", "explore.html", "report.md", "decision.json", "junit.xml",
    }  # fmt: skip
    assert "PROMOTE" in written.markdown.read_text().upper()
    page = written.page.read_text()
    assert page.lower().startswith("<!doctype html>")
    ours, theirs = (
        json.loads(path.read_text()) for path in (written.decision, project.layout.decision)
    )
    assert ours["datasets"][0]["record"] == theirs["datasets"][0]["record"]
    said = ours["summary"]["outcomes"]
    assert said == {"promote": 1, "hold": 0, "rollback": 0}


def test_a_policy_changed_since_the_decision_is_no_report(project: Toy) -> None:
    project.decide()
    path: Path = project.root / "policy" / "toy.toml"
    path.write_text(path.read_text().replace("margin = 0.15", "margin = 0.2"))
    with pytest.raises(EvidenceError, match=r"toy\.toml: was changed since"):
        made(project)


NOW = datetime(2026, 1, 31, tzinfo=UTC)


__all__ = ["harness"]


def test_a_decision_is_added_once_and_shown(project: Toy, harness: Harness) -> None:
    project.decide()
    assert harness("history", "add").out == "toy: added, 3 experiments\n"
    assert harness("history", "add", "--dataset", NAME).out == "toy: known already, 3 experiments\n"
    (found,) = trends.read(project.root / "history" / "toy.jsonl")
    assert set(found.means) == {"fts5", "tantivy", "hash-hybrid"}
    assert set(found.steps[0].ratios) == {"p50", "p95", "mean"}
    assert found.commit == ""
    said = harness("history", "page")
    assert said.code == 0
    page = project.root / "reports" / "trends.html"
    assert said.out == f"1 decisions: {page}\n"
    assert "hash-hybrid" in page.read_text()
    project.decide(later_s=2)
    assert harness("history", "add").out == "toy: added, 4 experiments\n"
    assert "2 decisions" in harness("history", "page").out


def test_what_does_not_verify_is_not_kept(project: Toy, harness: Harness) -> None:
    assert "nothing was decided yet" in harness("history", "add").error
    project.decide()
    path = project.layout.scores
    path.write_text(path.read_text() + " ")
    assert "scores.json: was changed since" in harness("history", "add").error
    assert not (project.root / "history").exists()
    assert "holds no history" in harness("history", "page").error
