"""``harness panel``: from a pool to judgements of several people, and one grade a pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.corpus import labels, trec
from harness.corpus import pool as pools
from tests.cli.conftest import Harness
from tests.make.desk import write_pool
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
BEGIN = ("panel", "begin", "pool.qrels", "--double", "1", "--seed", "3", "--out", "panel")


@pytest.fixture
def begun(project: Toy, harness: Harness) -> Path:
    """Deal twelve pairs out to two people, with guidelines."""
    write_pool(project.root, 12)
    (project.root / "guide.txt").write_text("1 is: it helps.")
    said = harness(*BEGIN, "--assessors", "ada,ben", "--guidelines", "guide.txt")
    assert said.code == 0, said
    assert "ada: 12 pairs in panel/ada.qrels" in said.out
    assert "harness serve panel" in said.out
    return project.root / "panel"


def judge(folder: Path, name: str, *, odd: int) -> None:
    path = folder / f"{name}.qrels"
    for pair in pools.read(path).pairs:
        pools.regrade(path, pair, None, odd if int(pair.query_id[1:]) % 4 else 0)


def test_two_people_judge_and_disagreements_are_settled(
    begun: Path, project: Toy, harness: Harness
) -> None:
    judge(begun, "ada", odd=1)
    early = harness("panel", "report", "panel")
    assert "ben: 0 of 12 judged\n" in early.out
    assert "Krippendorff's alpha, ordinal: too few queries were judged twice to say" in early.out
    judge(begun, "ben", odd=2)
    said = harness("panel", "report", "panel")
    assert said.code == 0, said
    assert "ada: 12 of 12 judged, 0 s a pair, drift " in said.out
    assert "12 pairs were judged twice; 9 differ, 0 of them by two grades or more" in said.out
    assert "weighted kappa of ada and ben: 0." in said.out
    settle = ("panel", "settle", "panel", "--out", "settled.qrels")
    open_ = harness(*settle)
    assert open_.code == 3
    assert "9 disagreements are open. Judge them: harness judge panel/disag" in open_.out
    path = begun / "disagreements.qrels"
    for pair in pools.read(path).pairs:
        pools.regrade(path, pair, None, 2)
    done = harness(*settle)
    assert done.code == 0, done
    assert "12 pairs are settled in settled.qrels" in done.out
    grades = trec.qrels(project.root / "settled.qrels").grades
    assert sorted(grade for docs in grades.values() for grade in docs.values()) == [0] * 3 + [2] * 9


def test_judgements_go_out_and_come_in(begun: Path, project: Toy, harness: Harness) -> None:
    nothing = harness("panel", "export", "panel", "--to", "people.jsonl")
    assert "panel: nothing is judged yet. Judge first: harness serve" in nothing.error
    (project.root / "ada.txt").write_text("q0 0 d0 1\nq1 0 d1 2\n")
    words = ("panel", "import", "panel", "ada.txt", "--assessor")
    assert "ada: 2 judgements taken in" in harness(*words, "ada").out
    assert "no assessor named 'eve'; there is ada, ben" in harness(*words, "eve").error
    assert (
        "2 labels in people.jsonl"
        in harness("panel", "export", "panel", "--to", "people.jsonl").out
    )
    assert {row.by for row in labels.read(project.root / "people.jsonl")} == {"ada"}
    assert begun.is_dir()


def test_what_is_no_panel_is_named(project: Toy, harness: Harness) -> None:
    write_pool(project.root, 12)
    for words in (("report",), ("settle", "--out", "x"), ("export", "--to", "x")):
        assert "bears no mark of harness panel" in harness("panel", words[0], ".", *words[1:]).error
    assert "a panel needs two assessors" in harness(*BEGIN, "--assessors", "ada").error
    assert not (project.root / "panel").exists()
