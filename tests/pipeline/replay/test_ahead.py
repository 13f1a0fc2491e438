"""The second replay by another process: the same runs, asked once here, and whole if it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.core.engine import Answer
from harness.core.errors import EvidenceError, InvalidArm, UnknownName
from harness.corpus.runs import read_run
from harness.pipeline import receipts, replay
from harness.replay.machine import Advance
from harness_engines import registry
from harness_engines.stacks.text.fts5 import Fts5Searcher
from tests.make.toy import Toy


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what this process asks; any replay is worth a second one, on any machine."""
    honest = Fts5Searcher.search
    texts: list[str] = []

    def noting(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        texts.append(text)
        return honest(searcher, text, k)

    monkeypatch.setattr(Fts5Searcher, "search", noting)
    monkeypatch.setattr(replay, "WORTH", 1)
    monkeypatch.setattr(replay, "usable_cores", lambda: 2)
    return texts


def replayed(project: Toy) -> tuple[bytes, bytes]:
    replay.replay(project.layout, "fts5", project.cache, project.params.replay)
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
    monkeypatch.setattr(replay, "partial", lambda *_: Dies())
    assert replayed(project) == before
    assert len(asked) == 2 * len(set(asked))


@pytest.mark.slow
def test_an_arm_that_answers_nothing_is_waited_for_by_nobody(
    project: Toy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Answer:
        raise ZeroDivisionError

    monkeypatch.setattr(Fts5Searcher, "search", broken)
    with pytest.raises(InvalidArm, match="not one of"):
        replayed(project)
    assert not asked


@pytest.mark.parametrize(
    ("stack", "shared"),
    [
        ("fts5", True),
        ("mail", True),
        ("http", False),
        ("postgres", False),
        ("typesense", False),
        ("remote/mcp", False),
    ],
)
def test_an_index_that_a_server_holds_is_asked_by_one_process(stack: str, *, shared: bool) -> None:
    assert stack in registry.known_stacks()
    assert registry.is_shared(stack) is shared


def test_code_that_a_user_brought_is_asked_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def engine(settings, cache): return object()\n")
    (tmp_path / "own.toml").write_text('summary = "Own."\nstack = "own.py"\n')
    assert not registry.load(str(tmp_path / "own.toml"), tmp_path).shared


def test_a_sample_is_asked_twice_and_compared_with_itself(
    project: Toy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (replay, receipts):
        monkeypatch.setattr(module, "SAMPLE", 3)
    monkeypatch.setattr(replay, "WORTH", 1_000)
    params = project.params.replay.asking_twice("sample")
    first = replay.replay(project.layout, "fts5", project.cache, params)
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


def test_another_way_of_asking_twice_is_refused(project: Toy) -> None:
    with pytest.raises(UnknownName, match="way of --aa"):
        project.params.replay.asking_twice("half")
