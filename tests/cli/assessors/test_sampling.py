"""``harness pool --order sample``: from an open gate to a judged sample that it decides by."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.core.formats import json_file
from harness.corpus import judgements
from harness.corpus.judgements import Pool
from harness.judge import pool
from harness.judge.pool import Compared
from harness.serve import pages
from tests.cli.conftest import Harness, Said
from tests.make.toy import CANDIDATE, CONTROL, Toy

pytestmark = pytest.mark.slow
PAIR = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", "nDCG@10")
Judgements = dict[tuple[str, str], int]


@pytest.fixture
def judged(project: Toy, harness: Harness) -> Judgements:
    """Withhold most judgements, and give them all."""
    path = project.root / "qrels" / "toy" / "test.qrels"
    lines = path.read_text().splitlines(keepends=True)
    grades = {(line.split()[0], line.split()[2]): int(line.split()[3]) for line in lines}
    path.write_text("".join(line for line in lines if line.split()[3] == "2" or "q99" in line))
    assert harness("stage", "prepare", "--dataset", "toy", "--update").code == 0
    return grades


def sample(harness: Harness, to: Path, size: str = "40", *more: str) -> Said:
    words = (*PAIR, "--order", "sample", "--size", size, "--out", to, *more)
    return harness("pool", "--dataset", "toy", *words)


@pytest.fixture
def begun(project: Toy, harness: Harness, judged: Judgements) -> Path:
    path = project.root / "pool.qrels"
    said = sample(harness, path)
    assert said.code == 0, said
    assert "unjudged hits of" in said.out
    assert judged
    return path


def page(path: Path) -> str:
    return bytes(pages.judging(pages.sit("pool", path, {}), "harness").body).decode()


def press_all(path: Path, judged: Judgements) -> Pool:
    """Judge in a browser until no pair comes."""
    seen = pages.sit("pool", path, {})
    while seen.pair is not None:
        grade = judged.get((seen.pair.query_id, seen.pair.doc_id), 0)
        seen = pages.press("pool", path, f"key={grade}&pair={seen.word}&was=&done=".encode())
    return judgements.read_pool(path)


def test_the_others_of_a_query_come_where_a_drawn_hit_is_relevant(
    begun: Path, judged: Judgements
) -> None:
    first = judgements.read_pool(begun).pairs
    whole = press_all(begun, judged)
    assert whole.pairs[: len(first)] == first
    more = whole.pairs[len(first) :]
    good = {one.query_id for one in first if judged.get((one.query_id, one.doc_id), 0)}
    assert more
    assert {one.query_id for one in more} <= good
    assert not whole.open
    assert "The sample is judged: of " in page(begun)
    found = pool.standing(begun)
    assert found is not None
    assert not found.judged.left


def test_a_terminal_gets_the_next_pairs_too(
    harness: Harness, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(judgements.read_pool(begun).pairs)
    monkeypatch.setattr("sys.stdin", io.StringIO("1" * count + "q"))
    said = harness("judge", begun)
    assert said.code == 0
    assert len(judgements.read_pool(begun).pairs) > count


def test_a_gate_decides_by_the_sample_and_the_decision_is_derived_again(
    project: Toy, harness: Harness, judged: Judgements
) -> None:
    """The judged sample is evidence: without it the gate is open, and to change it is noticed."""
    begun, policy = project.root / "pool.qrels", project.root / "policy" / "toy.toml"
    policy.write_text(policy.read_text().replace('control = "fts5"', 'control = "hash-hybrid"'))
    assert sample(harness, begun, "60", "--control", "hash-hybrid").code == 0
    for stage in (("stage", "score"), ("stage", "compare"), ("gate",)):
        harness(*stage, "--dataset", "toy")
    before = quality(project)
    assert before["cause"] == "unjudged"
    assert "--order sample --size" in before["settle"]
    words = ("labels", begun, "--dataset", "toy")
    assert "are not judged" in harness(*words, "--by", "ada").error
    press_all(begun, judged)
    said = harness(*words, "--by", "ada and a machine")
    assert said.code == 0, said
    assert "by ada and a machine" in said.out
    harness("gate", "--dataset", "toy")
    after = quality(project)
    assert "judged by ada and a machine" in after["reason"]
    assert harness("verify", "--dataset", "toy").code == 0
    (file,) = (project.layout.root / "labels").glob("*.sample.json")
    text = file.read_text()
    file.write_text(text.replace(": 1", ": 0"))
    assert harness("verify", "--dataset", "toy").code != 0
    file.write_text(text.replace('"rate"', '"rates"'))
    assert "Take the sample in again" in harness("gate", "--dataset", "toy").error


def quality(project: Toy) -> dict[str, str]:
    (step,) = json_file(project.layout.findings)["steps"]
    (found,) = (one for one in step["findings"] if one["gate"] == "Quality")
    assert isinstance(found, dict)
    return found


def test_a_pair_that_was_skipped_is_judged_before_more_come(begun: Path) -> None:
    skipped, *others = judgements.read_pool(begun).pairs
    for pair in others:
        judgements.regrade(begun, pair, None, 1)
    found = pool.following(begun)
    assert found is not None
    assert found.pool.pairs == (skipped, *others) == judgements.read_pool(begun).pairs


def test_runs_that_changed_add_nothing_and_the_page_says_so(project: Toy, begun: Path) -> None:
    made = judgements.read_pool(begun)
    file = pool.beside(begun)
    now = pool.runs_of(project.layout, Compared(CONTROL, CANDIDATE, "nDCG@10"))
    file.write_text(file.read_text().replace(now[0], "0" * 64))
    for pair in made.pairs:
        judgements.regrade(begun, pair, None, 0)
    assert "was run anew, and other hits would be drawn" in page(begun)
    with pytest.raises(EvidenceError, match="Make a new pool"):
        pool.following(begun)
    file.write_text("{}")
    with pytest.raises(BadFile, match="control: Field required"):
        pool.standing(begun)


def test_a_first_pool_becomes_a_data_set_by_the_command_of_its_page(
    project: Toy, harness: Harness
) -> None:
    queries, corpus = (project.root / "beir" / f"{name}.jsonl" for name in ("queries", "corpus"))
    path = project.root / "first.qrels"
    words = (queries, corpus, "--arms", "fts5", "--depth", "1", "--out", path)
    assert harness("queries", "pool", *words).code == 0
    for pair in judgements.read_pool(path).pairs:
        judgements.regrade(path, pair, None, 1)
    commands = [one.partition("<")[0].split() for one in page(path).split("<code>")[1:]]
    (made,) = (one for one in commands if one[:3] == ["harness", "import", "jsonl"])
    places = {"corpus.jsonl": corpus, "queries.jsonl": queries, "NAME": "first"}
    assert harness(*(places.get(one, one) for one in made[1:])).code == 0
    lines = (project.root / "qrels" / "first" / "test.qrels").read_text().splitlines()
    assert len(lines) == len(judgements.read_pool(path).pairs)


def test_what_cannot_be_drawn_says_why(project: Toy, harness: Harness, judged: Judgements) -> None:
    to = project.root / "p.qrels"
    words = ("pool", "--dataset", "toy", *PAIR, "--size", "5", "--out", to)
    assert "no order of a pool named 'best'; there is" in harness(*words, "--order", "best").error
    other = ("--control", CONTROL, "--candidate", CANDIDATE, "--measure", "ERR@10")
    said = harness("pool", "--dataset", "toy", *other, "--order", "sample", *words[-4:])
    assert "what one hit adds to ERR@10 is not known" in said.error
    assert not to.exists()
    assert judged
