"""Two commands at once: what both of them say is done is there afterwards.

Each writer is held up before its first rename until the other one is there too, or a moment has
passed; without a lock around reading, changing and writing, one of the two overwrites the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError, local
from time import sleep
from typing import Any, cast

import pytest

from harness.agreement import Class
from harness.core.run import Run
from harness.corpus import card, judgements, trec
from harness.corpus.judgements import JudgingPair, Pool
from harness.corpus.runs import RUN_PART
from harness.judge.judge import Merged, merge
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.pipeline.prepare import prepare
from harness.pipeline.race import read_part
from harness.pipeline.receipts import check_run
from harness.pipeline.replay import replay
from harness.pipeline.score import read, score
from harness.report import trends
from harness.shadow.divergences import AcceptedDivergence
from harness.shadow.settings import accept, read_suppressions
from tests.make.decisions import POLICY, day, decision, evidence
from tests.make.toy import NAME, Toy
from tests.report.test_trends import entry

A_MOMENT_S = 0.5
GRADES = 20
TODAY = "2031-05-01"

AtOnce = Callable[[Sequence[Callable[[], object]]], list[object]]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    """Run functions at once; each waits for the others before its first rename."""

    def run(writers: Sequence[Callable[[], object]]) -> list[object]:
        met, mine, renamed = Barrier(len(writers)), local(), Path.replace

        def replace_late(self: Path, target: Path) -> Path:
            if not getattr(mine, "met", False):
                mine.met = True
                with suppress(BrokenBarrierError):
                    met.wait(A_MOMENT_S)
            return renamed(self, target)

        with monkeypatch.context() as patched, ThreadPoolExecutor(len(writers)) as threads:
            patched.setattr(Path, "replace", replace_late)
            return [found.result() for found in [threads.submit(one) for one in writers]]

    return run


def folders(project: Toy) -> tuple[Path, Path]:
    return project.root / "datasets" / NAME, project.root / "qrels" / NAME


def judged(project: Toy, number: int) -> Path:
    """Write a pool of pairs that are not judged yet, each with its grade."""
    path = project.root / f"pool-{number}.qrels"
    pairs = tuple(
        JudgingPair(
            query_id="q99",
            doc_id=f"d{number}{at:02}",
            query="",
            title="",
            snippet="",
            narrows=0.1,
            scale=(0, 1),
        )
        for at in range(GRADES)
    )
    written = Pool(pairs, (1,) * GRADES)
    judgements.begin(path, written)
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


@pytest.mark.slow
def test_two_who_score_take_turns_with_the_parts(
    project: Toy, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first removed the parts that the other had not read yet."""
    one, seen = project.layout, read
    waits, mine = iter((0.0, A_MOMENT_S)), local()

    def read_late(*given: Any) -> Any:  # noqa: ANN401  as the function
        mine.waits = getattr(mine, "waits", None) or next(waits, 0.0)
        sleep(mine.waits)
        return seen(*given)

    monkeypatch.setattr("harness.pipeline.score.read", read_late)
    scoring = partial(score, one, project.params.arms, project.params.score)
    first, second = at_once([scoring, scoring])
    assert first == second
    assert not one.score_parts.exists()


@pytest.mark.slow
def test_two_who_replay_an_arm_take_turns_with_the_parts(
    project: Toy, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first removed the folder in which the other wrote a part."""
    one, seen = project.layout, RUN_PART.read
    waits, mine = iter((0.0, A_MOMENT_S)), local()

    def read_late(path: Path) -> Run:
        mine.waits = getattr(mine, "waits", None) or next(waits, 0.0)
        sleep(mine.waits)
        return seen(path)

    monkeypatch.setattr(RUN_PART, "read", read_late)
    again = partial(replay, one, "fts5", project.cache, project.params.replay)
    first, second = at_once([again, again])
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert list(first.rows()) == list(second.rows())
    assert not one.parts("fts5").exists()
    check_run(one, "fts5")


@pytest.mark.slow
def test_two_who_race_take_turns(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """They timed each other's work, and whoever was first removed the other's parts."""
    seen, inside = read_part, []

    def alone(*given: Any) -> Any:  # noqa: ANN401  as the function
        inside.append(1)
        sleep(A_MOMENT_S / 5)
        most.append(len(inside))
        found = seen(*given)
        inside.pop()
        return found

    most: list[int] = []
    monkeypatch.setattr("harness.pipeline.race.read_part", alone)
    with ThreadPoolExecutor(2) as threads:
        for found in [threads.submit(project.race) for _ in range(2)]:
            found.result()
    assert max(most) == 1


def test_two_decisions_are_both_in_the_history(tmp_path: Path, at_once: AtOnce) -> None:
    path = tmp_path / "toy.jsonl"
    entries = [entry(number) for number in range(2)]
    assert at_once([partial(trends.add, path, one) for one in entries]) == [True, True]
    assert [one.decision_sha256 for one in trends.read(path)] == [
        one.decision_sha256 for one in entries
    ]


def test_two_who_accept_are_both_in_the_register(tmp_path: Path, at_once: AtOnce) -> None:
    path = tmp_path / "accepted.toml"
    first = AcceptedDivergence.of("why", "Ada", date(2031, 6, 1), kind=Class.TIE_ORDER)
    both = [first, first.model_copy(update={"kind": Class.REORDER})]
    at_once([partial(accept, path, one, today=date(2031, 5, 1)) for one in both])
    assert set(read_suppressions(path).entries) == set(both)


def test_two_who_take_a_step_take_one_and_the_other_is_refused(
    tmp_path: Path, at_once: AtOnce
) -> None:
    folder = tmp_path / "migration"
    migrate.begin(folder, POLICY, "fts5", now=day(1, 8), by="me")
    ev = evidence(decision(1))
    step = partial(migrate.advance, folder, POLICY, ev, now=day(1, 9), by="me", reason="")
    moves = [cast("migrate.Move", one) for one in at_once([step, step])]
    refused = sorted(bool(one.hindrances) for one in moves)
    assert refused == [False, True]
    assert len(ledger.read(folder).state.taken) == 1
