"""The log of experiments."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import MANIFEST
from harness.core.errors import BadFile, HarnessError
from harness.core.names import Experiment, Kind
from harness.corpus.clusters import CLUSTER_FILE
from harness.corpus.judgements import read_held
from harness.corpus.prepared import DATA_MANIFEST
from harness.corpus.runs import read_run
from harness.load.files import TRIALS
from harness.migrate import ledger
from harness.pipeline import experiments, pins
from harness.pipeline.experiments import (
    EXPERIMENTS,
    FIRST,
    inventory_of,
    keep,
    read,
    shared,
    stock,
)
from harness.pipeline.layout import Layout
from harness.policy.load import load_policy
from harness.report import trends
from harness.report.decision import from_json
from harness.shadow.settings import read_suppressions
from tests.docs.pages import page
from tests.make.toy import CANDIDATE, CONTROL, Toy

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
    (said,) = json.loads(project.layout.decision.read_text())["summary"]["steps"]
    assert [(one.step, one.outcome) for one in gate.steps] == [("tantivy", said["outcome"])]
    assert gate.inputs.seeds == {"policy": 5, "race": 5}


def test_what_was_judged_on_is_kept_once(project: Toy) -> None:
    project.decide()
    project.decide(later_s=1)
    log = read(project.layout)
    assert len(list(project.layout.experiments.glob("inventory-*.json"))) == 1
    assert inventory_of(project.layout, log.experiments[-1]) == stock(project.layout)
    kept = next(project.layout.experiments.glob("inventory-*.json"))
    kept.write_text(kept.read_text().replace('"q00":"', '"q0x":"', 1))
    assert inventory_of(project.layout, log.experiments[-1]) is None
    kept.write_text("{")
    with pytest.raises(BadFile, match="not an inventory"):
        inventory_of(project.layout, log.experiments[-1])


def test_judging_by_another_policy_is_noted_and_leaves_no_decision(project: Toy) -> None:
    decisions = (project.decide(),)
    file = project.project.policy_file
    with experiments.writing(project.layout):
        policy = project.project.policy()
        pins.note_judged(project.layout, policy, file, decisions, datetime.now(UTC), decided=False)
    *_, gate, other = read(project.layout).experiments
    assert (other.kind, other.decision) == ("decide", None)
    assert other.steps == gate.steps


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 2}'])
def test_a_line_that_is_none_is_named(project: Toy, text: str) -> None:
    path = project.layout.log
    path.write_text(path.read_text() + text + "\n")
    with pytest.raises(BadFile, match=r"log\.jsonl:3: "):
        read(project.layout)


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


EARLIER = Path(__file__).parent / "earlier"
READ: dict[str, tuple[Callable[[Path], Any], Callable[[Any], object], object]] = {
    "run.parquet": (read_run, lambda run: (run.arm, len(run.query_ids)), ("fts5", 240)),
    "history.jsonl": (trends.read, lambda found: [one.dataset for one in found], ["data"]),
    "ledger.json": (lambda p: ledger.read(p.parent), lambda found: len(found.events), 1),
    "pool.qrels": (read_held, lambda found: list(found.grades), [1, 0, 1, 0]),
    "accepted.toml": (read_suppressions, lambda found: found.entries[0].by, "ada"),
    "load_trials.jsonl": (TRIALS.read, lambda found: found[0].trial.arrivals, 1999),
    "index_manifest.json": (MANIFEST.read, lambda found: found.documents, 240),
    "data_manifest.json": (DATA_MANIFEST.read, lambda found: found.queries, 240),
}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "experiments.jsonl": (EXPERIMENTS.read, "of another format"),
    "clusters.json": (CLUSTER_FILE.read, "harness stage prepare"),
    "decision.json": (lambda p: from_json(json.loads(p.read_text("utf-8")), p), "gate stage"),
    "policy.toml": (load_policy, "policy.attempts"),
}


@pytest.mark.parametrize("name", READ)
def test_it_is_still_read(name: str, tmp_path: Path) -> None:
    read, seen, expected = READ[name]
    shutil.copytree(EARLIER, tmp_path / "earlier")
    assert seen(read(tmp_path / "earlier" / name)) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    read, said = REFUSED[name]
    with pytest.raises(HarnessError, match=said) as refused:
        read(EARLIER / name)
    assert name in str(refused.value)


def test_each_has_a_row_on_the_page() -> None:
    lines = page("docs/limits.md").text.splitlines()
    assert {f"`{name}`" for name in (*READ, *REFUSED)} <= {
        one.split("|")[1].strip() for one in lines if "|" in one
    }
