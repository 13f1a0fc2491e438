"""``harness judge --by`` and ``harness panel``: several people, and one grade a pair."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harness.corpus import judgements, trec
from harness.judge.panel import own_file
from tests.cli.conftest import Harness
from tests.make.desk import write_pool
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
ADA, BEN = "pool.ada.qrels", "pool.ben.qrels"


@pytest.fixture
def begun(project: Toy) -> Path:
    """Begin the files of two people who judge twelve pairs."""
    pool = write_pool(project.root, 12)
    for name in ("ada", "ben"):
        own_file(pool, name)
    return project.root


def judge(path: Path, *, odd: int) -> None:
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, odd if int(pair.query_id[1:]) % 4 else 0)


def test_a_name_has_a_file_of_its_own(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = write_pool(project.root, 2)
    before = pool.read_bytes()
    monkeypatch.setattr("sys.stdin", io.StringIO("1q"))
    said = harness("judge", "pool.qrels", "--by", "ada")
    assert said.code == 0, said
    assert "1 of 2 pairs are judged in pool.ada.qrels" in said.out
    assert judgements.read_pool(project.root / ADA).grades == (1, None)
    assert pool.read_bytes() == before


def test_two_people_judge_and_disagreements_are_settled(begun: Path, harness: Harness) -> None:
    judge(begun / ADA, odd=1)
    early = harness("panel", "report", ADA, BEN)
    assert "ben: 0 of 12 judged\n" in early.out
    assert "Krippendorff's alpha, ordinal: too few queries were judged twice to say" in early.out
    judge(begun / BEN, odd=2)
    said = harness("panel", "report", ADA, BEN)
    assert said.code == 0, said
    assert "ada: 12 of 12 judged\n" in said.out
    assert "12 pairs were judged twice; 9 differ, 0 of them by two grades or more" in said.out
    assert "weighted kappa of ada and ben: 0." in said.out
    settle = ("panel", "settle", ADA, BEN, "--out", "settled.qrels")
    open_ = harness(*settle)
    assert open_.code == 3
    assert "9 disagreements are open.\nJudge them: harness judge settled.disag" in open_.out
    path = begun / "settled.disagreements.qrels"
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, 2)
    done = harness(*settle)
    assert done.code == 0, done
    assert "12 pairs are settled in settled.qrels" in done.out
    grades = trec.qrels(begun / "settled.qrels").grades
    assert sorted(grade for docs in grades.values() for grade in docs.values()) == [0] * 3 + [2] * 9


def test_one_file_is_too_few(begun: Path, harness: Harness) -> None:
    assert begun.is_dir()
    for words in (("report",), ("settle", "--out", "x")):
        said = harness("panel", words[0], ADA, *words[1:])
        assert said.code == 2
        assert "takes the files of two people" in said.error
