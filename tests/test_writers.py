"""Files that several slices write: at once, on the disk, and as they were earlier."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from harness.core.engine import MANIFEST
from harness.core.errors import HarnessError
from harness.corpus import card, judgements, trec
from harness.corpus.clusters import CLUSTER_FILE
from harness.corpus.judgements import JudgingPair, Label, Pool, read_held
from harness.corpus.prepared import DATA_MANIFEST
from harness.corpus.runs import read_run
from harness.judge.judge import Merged, merge
from harness.load.trial import TRIALS
from harness.migrate import ledger
from harness.pipeline.experiments import EXPERIMENTS
from harness.pipeline.prepare import prepare
from harness.policy.load import load_policy
from harness.report import trends
from harness.report.decision import from_json
from harness.shadow.settings import read_suppressions
from tests.make.decisions import POLICY, day, decision, evidence
from tests.make.toy import NAME, Toy
from tests.pipeline.conftest import AtOnce, at_once
from tests.report.test_trends import entry

GRADES = 20
TODAY = "2031-05-01"
__all__ = ["at_once"]


def folders(project: Toy) -> tuple[Path, Path]:
    return project.root / "datasets" / NAME, project.root / "qrels" / NAME


def judged(project: Toy, number: int) -> Path:
    """Write a pool of pairs that are not judged yet, each with its grade."""
    path = project.root / f"pool-{number}.qrels"
    plain = JudgingPair(
        query_id="q99", doc_id="", query="", title="", snippet="", narrows=0.1, scale=(0, 1)
    )
    named = (f"d{number}{at:02}" for at in range(GRADES))
    pairs = tuple(plain.model_copy(update={"doc_id": name}) for name in named)
    judgements.begin(path, Pool(pairs, (1,) * GRADES))
    return path


def test_two_merges_add_what_both_say_they_added(project: Toy, at_once: AtOnce) -> None:
    data, qrels = folders(project)
    before = card.read(data)
    pools = [judged(project, number) for number in range(2)]
    said = at_once([partial(merge, path, data, qrels, by="me", at=TODAY) for path in pools])
    assert said == [Merged(GRADES, 0, 0)] * 2
    grades = trec.qrels(qrels / "test.qrels").grades["q99"]
    for path in pools:
        assert all(grades[doc_id] == 1 for _, doc_id, _ in judgements.read_pool(path).judgements)
    lines = (qrels / "test.judged.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["judgements"]) for line in lines] == [GRADES, GRADES]
    after = card.read(data)
    assert len(after.warnings) == len(before.warnings) + 2
    assert after.judgements == before.judgements + 2 * GRADES
    prepare(data, qrels, project.layout.data)


def test_an_update_of_the_card_keeps_a_merge_of_the_same_moment(
    project: Toy, at_once: AtOnce
) -> None:
    data, qrels = folders(project)
    path = judged(project, 1)
    at_once([
        partial(prepare, data, qrels, project.layout.data, update=True),
        partial(merge, path, data, qrels, by="me", at=TODAY),
    ])
    assert len(trec.qrels(qrels / "test.qrels").grades["q99"]) == 1 + GRADES
    assert "20 judgements were added" in card.read(data).warnings[-1]
    prepare(data, qrels, project.layout.data)


def test_two_who_take_a_step_take_one_and_the_other_is_refused(
    tmp_path: Path, at_once: AtOnce
) -> None:
    folder = tmp_path / "migration"
    ledger.begin(folder, POLICY, "fts5", now=day(1, 8), by="me")
    ev = evidence(decision(1))
    step = partial(ledger.advance, folder, POLICY, ev, now=day(1, 9), by="me", reason="")
    moves = [cast("ledger.Move", one) for one in at_once([step, step])]
    refused = sorted(bool(one.hindrances) for one in moves)
    assert refused == [False, True]
    assert len(ledger.read(folder).state.taken) == 1


LABEL = Label(query_id="q", doc_id="d", grade=1, kind="person", by="me")


@pytest.mark.parametrize(
    ("write", "file"),
    [
        (lambda to: ledger.begin(to, POLICY, "fts5", now=day(1, 8), by="me"), "ledger.json"),
        (lambda to: ledger.begin(to, POLICY, "fts5", now=day(1, 8), by="me"), "switch.env"),
        (lambda to: ledger.write(to, "fts5", why="a test"), "switch.env"),
        (lambda to: trends.add(to / "toy.jsonl", entry(1)), "toy.jsonl"),
        (lambda to: judgements.write_labels(to / "labels.jsonl", [LABEL]), "labels.jsonl"),
    ],
    ids=["begun", "begun, its switch", "switched", "decided", "labelled"],
)
def test_what_is_acknowledged_is_on_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path], object],
    file: str,
) -> None:
    waited: list[str] = []
    wait = os.fsync

    def fsync(opened: int) -> None:
        waited.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path)
    assert tmp_path.name in waited[waited.index(file) + 1 :]


EARLIER = Path(__file__).parent / "earlier"
READ: dict[str, tuple[Callable[[Path], Any], Callable[[Any], object], object]] = {
    "run.parquet": (read_run, lambda run: (run.arm, len(run.query_ids)), ("fts5", 240)),
    "history.jsonl": (trends.read, lambda found: [one.dataset for one in found], ["data"]),
    "ledger.json": (lambda p: ledger.read(p.parent), lambda found: len(found.events), 1),
    "pool.qrels": (read_held, lambda found: list(found.grades), [1, 0, 1, 0]),
    "accepted.toml": (read_suppressions, lambda found: found.entries[0].by, "ada"),
    "load_trials.jsonl": (TRIALS.read, lambda found: found[0].trial.response.count, 1999),
    "index_manifest.json": (MANIFEST.read, lambda found: found.documents, 240),
    "data_manifest.json": (DATA_MANIFEST.read, lambda found: found.queries, 240),
}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "experiments.jsonl": (EXPERIMENTS.read, "of another format"),
    "clusters.json": (CLUSTER_FILE.read, "harness stage prepare"),
    "decision.json": (lambda p: from_json(json.loads(p.read_text("utf-8")), p), "gate stage"),
    "policy.toml": (load_policy, "policy.attempts"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_it_is_still_read(name: str, tmp_path: Path) -> None:
    read, seen, expected = READ[name]
    shutil.copytree(EARLIER, tmp_path / "earlier")
    assert seen(read(tmp_path / "earlier" / name)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    read, said = REFUSED[name]
    with pytest.raises(HarnessError, match=said) as refused:
        read(EARLIER / name)
    assert name in str(refused.value)
