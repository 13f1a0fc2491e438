"""The stage replay: answers, tallies and whose fault a failure is."""

import os
from dataclasses import replace

import pytest

from harness.core.engine import Answer
from harness.core.errors import EvidenceError, IndexNotReady, InvalidArm
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline import receipts
from harness.pipeline import replay as replay_ahead
from harness.pipeline.decompose import ask
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import check_served, replay
from harness.replay import drive
from harness.replay.machine import Advance
from harness_engines.stacks.text.fts5 import Fts5Searcher
from tests.make.arms import Table, hits
from tests.make.toy import ARMS, Toy


def again(project: Toy, arm: str = "fts5") -> None:
    replay(project.layout, arm, project.cache, project.params.replay)


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_has_a_row_for_each_query_in_their_order(measured: Toy, arm: str) -> None:
    asked = tuple(query.query_id for query in Prepared.open(measured.layout.data).queries())
    for path in (measured.layout.run(arm), measured.layout.again(arm)):
        run = read_run(path)
        assert run.query_ids == asked
        assert run.count(Status.ANSWERED) == len(asked)
        assert set(run.served_by) == {read_manifest(measured.layout, arm).fingerprint}
        assert run.lengths.max() <= measured.params.replay.k


def test_an_index_built_anew_between_both_replays_is_refused(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = read_run(project.layout.run("fts5")), project.layout.manifest("fts5")
    made, before = path.read_text(), project.layout.run("fts5").read_bytes()

    def built_anew(*_: object) -> Run:
        path.write_text(made.replace("sqlite-fts5", "sqlite-fts4"))
        return run

    monkeypatch.setattr(replay_ahead, "_ask", built_anew)
    with pytest.raises(IndexNotReady, match="is not the index that"):
        again(project)
    assert project.layout.run("fts5").read_bytes() == before


def test_an_arm_that_answers_nothing_is_invalid(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Answer:
        raise ValueError("broken pipe")

    monkeypatch.setattr(Fts5Searcher, "search", fails)
    with pytest.raises(InvalidArm, match=r"not one of 41 queries was answered; .* broken pipe"):
        again(project)


def test_a_killed_replay_goes_on_where_it_was(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.layout.run("fts5").read_bytes()
    asked: list[str] = []
    honest = Fts5Searcher.search

    def killed(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        asked.append(text)
        if len(asked) == 25:
            raise KeyboardInterrupt
        return honest(searcher, text, k)

    monkeypatch.setattr(drive, "PART", 10)
    monkeypatch.setattr(Fts5Searcher, "search", killed)
    with pytest.raises(KeyboardInterrupt):
        again(project)
    assert project.layout.run("fts5").read_bytes() == before
    seed = str(project.params.replay.seed)
    assert len(list((project.layout.parts("fts5") / seed).iterdir())) == 2
    again(project)
    assert len(asked) == 25 + (41 - 20) + 41
    assert project.layout.run("fts5").read_bytes() == before


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what this process asks; any replay is worth a second one, on any machine."""
    honest = Fts5Searcher.search
    texts: list[str] = []

    def noting(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        texts.append(text)
        return honest(searcher, text, k)

    monkeypatch.setattr(Fts5Searcher, "search", noting)
    monkeypatch.setattr(replay_ahead, "WORTH", 1)
    monkeypatch.setattr(replay_ahead, "usable_cores", lambda: 2)
    return texts


def replayed(project: Toy) -> tuple[bytes, bytes]:
    replay_ahead.replay(project.layout, "fts5", project.cache, project.params.replay)
    again = project.layout.again("fts5").read_bytes()
    return project.layout.run("fts5").read_bytes(), again


@pytest.mark.slow
def test_this_process_asks_each_query_once_and_the_runs_are_the_same(
    project: Toy, asked: list[str]
) -> None:
    before = project.layout.run("fts5").read_bytes(), project.layout.again("fts5").read_bytes()
    assert replayed(project) == before
    assert len(asked) == len(set(asked))


class Dies:
    """The work of a process that ends before it did anything."""

    def __call__(self, _: Advance) -> None:
        os._exit(3)


@pytest.mark.slow
def test_what_the_other_process_did_not_do_is_done_here(
    project: Toy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.layout.run("fts5").read_bytes(), project.layout.again("fts5").read_bytes()
    monkeypatch.setattr(replay_ahead, "partial", lambda *_: Dies())
    assert replayed(project) == before
    assert len(asked) == 2 * len(set(asked))


def test_a_sample_is_asked_twice_and_compared_with_itself(
    project: Toy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "SAMPLE", 3)
    monkeypatch.setattr(replay_ahead, "WORTH", 1_000)
    params = project.params.replay.asking_twice("sample")
    first = replay_ahead.replay(project.layout, "fts5", project.cache, params)
    assert len(asked) == len(first) + 3
    shown, again = receipts.read_twice(project.layout, "fts5")
    drawn = read_run(project.layout.again("fts5")).query_ids
    assert len(drawn) == 3
    assert shown.query_ids == again.query_ids == drawn
    assert shown.shown_sha256 == again.shown_sha256
    assert [shown.ranking(q) for q in drawn] == [first.ranking(q) for q in drawn]
    monkeypatch.setattr(receipts, "SAMPLE", 4)
    with pytest.raises(EvidenceError, match=r"has 3 queries of \d+, and a sample has 4\. Run: har"):
        receipts.read_twice(project.layout, "fts5")


QUERIES = [Query("q1", "one"), Query("q2", "two")]


def run_of(*rows: Row) -> Run:
    return Run.of("arm", rows)


def test_one_answer_of_another_engine_is_enough_and_the_arm_says_why() -> None:
    table = Table(answers={"two": lambda: Answer(hits("d"), "somebody else", "the disk is full")})
    own = table.manifest.fingerprint
    answered = Row("q1", Status.ANSWERED, hits("d"), own)
    check_served(run_of(answered, Row("q2", Status.FAILED, error="x")), table, QUERIES)
    strange = Row("q2", Status.ANSWERED, hits("d"), "somebody else")
    with pytest.raises(InvalidArm, match=r"1 of 2 .* of q2, by somebody els: the disk is full"):
        check_served(run_of(answered, strange), table, QUERIES)


def test_an_answer_of_a_fallback_is_told_apart(
    measured: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, asked = Fts5Searcher.search, (measured.layout, ("fts5",), Query("", "water"), 3)
    (own,) = ask(*asked, measured.cache)
    monkeypatch.setattr(
        Fts5Searcher, "search", lambda *given: replace(honest(*given), served_by="f" * 64)
    )
    (other,) = ask(*asked, measured.cache)
    assert (own.by_itself, other.by_itself) == (True, False)
