"""Judging by people, panels and machines."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import DatasetError
from harness.core.run import Status
from harness.corpus import card, judgements, trec
from harness.corpus.judgements import SNIPPET, Pool
from harness.corpus.runs import read_run, write_run
from harness.judge.judge import judge, merge, own_file
from harness.judge.pool import read_runs
from harness.pipeline.receipts import note_run
from harness.serve import application as pages
from tests.cli.conftest import Harness, Said
from tests.make.decisions import of_gate
from tests.make.desk import write_pool
from tests.make.toy import CANDIDATE, CONTROL, Toy

pytestmark = pytest.mark.slow
ARMS = ("--control", CONTROL, "--candidate", CANDIDATE)
Judgements = dict[tuple[str, str], int]


@pytest.fixture
def judged(project: Toy, harness: Harness) -> Judgements:
    """Take most judgements away, so that only the best of each query stays; return them all."""
    path = project.root / "qrels" / "toy" / "test.qrels"
    lines = path.read_text().splitlines(keepends=True)
    grades = {(line.split()[0], line.split()[2]): int(line.split()[3]) for line in lines}
    path.write_text("".join(line for line in lines if line.split()[3] == "2" or "q99" in line))
    assert harness("stage", "prepare", "--dataset", "toy", "--update").code == 0
    return grades


@pytest.fixture
def pooled(project: Toy, harness: Harness, judged: Judgements) -> Path:
    """Write a pool of five."""
    assert judged
    path = project.root / "pool.qrels"
    words = ("--measure", "nDCG@10", "--size", "5", "--out", path)
    said = harness("pool", "--dataset", "toy", *ARMS, *words)
    assert said.code == 0, said
    assert "wrote the first 5" in said.out
    return path


def piped(harness: Harness, monkeypatch: pytest.MonkeyPatch, keys: str, *words: str | Path) -> Said:
    monkeypatch.setattr("sys.stdin", io.StringIO(keys))
    return harness("judge", *words)


def test_a_query_that_the_candidate_did_not_answer_is_not_compared(project: Toy) -> None:
    layout = project.layout
    run = read_run(layout.run(CANDIDATE))
    status = run.status.copy()
    status[:3] = Status.TIMED_OUT
    write_run(replace(run, status=status), layout.run(CANDIDATE))
    note_run(layout, CANDIDATE)
    assert read_runs(layout, CONTROL, CANDIDATE).ids == run.query_ids[3:]


def test_a_pool_names_the_most_decisive_pairs_first(
    pooled: Path, project: Toy, harness: Harness
) -> None:
    found, every = judgements.read_pool(pooled), project.root / "every.qrels"
    words = ("--measure", "nDCG@10", "--size", "999", "--out", every)
    assert harness("pool", "--dataset", "toy", *ARMS, *words).code == 0
    whole = judgements.read_pool(every).pairs
    gains = [pair.narrows for pair in whole]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > gains[-1] > 0
    assert whole[:5] == found.pairs
    assert found.grades == (None,) * 5
    judged = trec.qrels(project.root / "qrels" / "toy" / "test.qrels").grades
    for pair in found.pairs:
        assert pair.doc_id not in judged[pair.query_id]
        assert pair.query
        assert 0 < len(pair.snippet) <= SNIPPET
        assert pair.scale == (0, 1, 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dataset", "beir"), "beir is a folder and no data set of the project. Name"),
        (("--from", "out/ran", "--dataset", "toy"),
         "no data set in out/ran named 'toy'; there is beir"),
        (("--dataset", "toy", "--candidate", "dense"),
         "no arm that toy was run with named 'dense'; there is fts5, hash-hybrid, tantivy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_not_what_follows(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    """Each of these said that an arm had no index, which no command could mend."""
    if "--from" in words:
        assert harness("run", "--dataset", "beir", "--arms", "fts5", "--out", "out/ran").code == 0
    size = ("--measure", "nDCG@10", "--size", "5", "--out", "x.pool")
    assert says in harness("pool", *ARMS, *size, *words).error
    assert project


def test_keys_give_grades_and_the_same_command_goes_on(
    pooled: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = piped(harness, monkeypatch, "1 s 9 2 u 0\n", pooled)
    assert said.code == 0, said
    assert judgements.read_pool(pooled).grades == (1, None, 0, None, None)
    assert "'9' is not a key" in said.err
    assert "2 of 5 pairs are judged" in said.out
    assert "5 of 5" in piped(harness, monkeypatch, "0s12", pooled).out
    assert judgements.read_pool(pooled).grades == (1, 0, 0, 1, 2)


def test_judgements_come_back_into_the_data_set_with_who_made_them(
    pooled: Path, project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(harness, monkeypatch, "0120q", pooled)
    said = harness("judge", pooled, "--merge", "toy", "--by", "two editors")
    assert "added 4 judgements to toy; 0 were known, 1 are open" in said.out
    judged = project.root / "qrels" / "toy" / "test.qrels"
    grades = trec.qrels(judged).grades
    for query_id, doc_id, grade in judgements.read_pool(pooled).judgements:
        assert grades[query_id][doc_id] == grade
    assert "4 judgements were added on" in card.read(project.root / "datasets" / "toy").warnings[-1]
    (line,) = judged.with_name("test.judged.jsonl").read_text().splitlines()
    assert json.loads(line)["by"] == "two editors"
    assert len(json.loads(line)["judgements"]) == 4
    assert harness("stage", "prepare", "--dataset", "toy").code == 0
    again = harness("judge", pooled, "--merge", "toy", "--by", "two editors")
    assert "added 0 judgements to toy; 4 were known" in again.out


def test_a_contradiction_is_not_settled_in_silence(pooled: Path, project: Toy) -> None:
    judge(pooled, "1", lambda *_: None)
    query_id, doc_id, _ = judgements.read_pool(pooled).judgements[0]
    folders = project.root / "datasets" / "toy", project.root / "qrels" / "toy"
    judged = folders[1] / "test.qrels"
    judged.write_text(judged.read_text() + f"{query_id} 0 {doc_id} 2\n")
    with pytest.raises(DatasetError, match=r"has grade 2 .* and grade 1"):
        merge(pooled, *folders, by="me", at="2026-01-31")


ADA, BEN = "pool.ada.qrels", "pool.ben.qrels"


@pytest.fixture
def begun(project: Toy) -> Path:
    """Begin the files of two people who judge twelve pairs."""
    pool = write_pool(project.root, 12)
    for name in ("ada", "ben"):
        own_file(pool, name)
    return project.root


def judge_panel(path: Path, *, odd: int) -> None:
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, odd if int(pair.query_id[1:]) % 4 else 0)


def test_two_people_judge_and_disagreements_are_settled(begun: Path, harness: Harness) -> None:
    judge_panel(begun / ADA, odd=1)
    judge_panel(begun / BEN, odd=2)
    said = harness("panel", "report", ADA, BEN)
    assert said.code == 0, said
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


def press_all(path: Path, judged: Judgements) -> Pool:
    """Judge in a browser until no pair comes."""
    seen = pages.sit("pool", path, {})
    while seen.pair is not None:
        grade = judged.get((seen.pair.query_id, seen.pair.doc_id), 0)
        seen = pages.press("pool", path, f"key={grade}&pair={seen.word}&was=&done=".encode())
    return judgements.read_pool(path)


def test_a_gate_decides_by_the_sample_and_the_decision_is_derived_again(
    project: Toy, harness: Harness, judged: Judgements
) -> None:
    """The judged sample is evidence: without it the gate is open, and to change it is noticed."""
    begun, policy = project.root / "pool.qrels", project.root / "policy" / "toy.toml"
    policy.write_text(policy.read_text().replace('control = "fts5"', 'control = "hash-hybrid"'))
    words = ("--control", "hash-hybrid", "--candidate", CANDIDATE, "--measure", "nDCG@10")
    of_sample = ("--order", "sample", "--size", "60", "--out", begun)
    assert harness("pool", "--dataset", "toy", *words, *of_sample).code == 0
    for stage in (("stage", "score"), ("stage", "compare"), ("gate",)):
        harness(*stage, "--dataset", "toy")
    before = of_gate(project.layout.decision, "Quality")
    assert before["cause"] == "unjudged"
    assert "--order sample --size" in before["settle"]
    labels = ("labels", begun, "--dataset", "toy", "--by")
    assert "are not judged" in harness(*labels, "ada").error
    press_all(begun, judged)
    said = harness(*labels, "ada and a machine")
    assert said.code == 0, said
    assert "by ada and a machine" in said.out
    harness("gate", "--dataset", "toy")
    after = of_gate(project.layout.decision, "Quality")
    assert "judged by ada and a machine" in after["reason"]
    assert harness("verify", "--dataset", "toy").code == 0
    (file,) = (project.layout.root / "labels").glob("*.sample.json")
    file.write_text(file.read_text().replace(": 1", ": 0"))
    assert harness("verify", "--dataset", "toy").code != 0
