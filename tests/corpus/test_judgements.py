"""``harness.corpus.judgements``: pairs that wait for a grade, in a file for TREC's tools."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.evidence import Sample
from harness.core.records import Judgement
from harness.corpus import judgements, trec
from harness.corpus.judgements import Overtaken, Pair, Pool

# ``harness.corpus.judgements``: pairs that wait for a grade, in a file for TREC's tools


def pair(doc_id: str, query_id: str = "q1") -> Pair:
    return Pair(
        query_id=query_id,
        doc_id=doc_id,
        query="what?",
        title="A title",
        snippet="words \u2028 of it",
        narrows=0.25,
        scale=(0, 1, 2),
    )


def written(path: Path) -> Pool:
    made = Pool((pair("a"), pair("b"), pair("a", "q2")), (None, None, None))
    judgements.begin(path, made)
    return made


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    made = written(tmp_path / "p.qrels")
    assert judgements.read_pool(tmp_path / "p.qrels") == made
    assert made.open == (0, 1, 2)
    graded = made.graded(1, 2)
    judgements.write_grades(tmp_path / "p.qrels", graded)
    assert judgements.read_pool(tmp_path / "p.qrels") == graded
    assert graded.open == (0, 2)
    assert graded.judgements == (Judgement("q1", "b", 2),)
    assert graded.graded(1, None) == made


def test_the_file_is_one_of_judgements_once_it_is_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    made = written(path)
    with pytest.raises(BadFile, match=r":1: the pair is not judged yet. Judge it: harness judge"):
        trec.qrels(path)
    for at in made.open:
        made = made.graded(at, at)
    judgements.write_grades(path, made)
    assert tuple(trec.qrels(path).rows()) == made.judgements


def test_a_pool_may_be_filled_in_by_hand_and_sorted(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    written(path)
    path.write_text("q2\t0\ta\t1\nq1 0 b ?\n")
    assert judgements.read_pool(path).judgements == (Judgement("q2", "a", 1),)
    assert judgements.read_pool(path).open == (1,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("q1 0 a maybe\n", "':?maybe'? is not an integer"),
        ("q1 0 strange 1\n", ":1: strange for query q1 is not in the pool"),
        ("q1 0 a 1\nq1 0 a 1\n", ":2: a for query q1"),
        ("q1 a 1\n", "3 fields, not 4"),
        ("\n", "it holds no pair"),
    ],
)
def test_what_is_wrong_names_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "p.qrels"
    written(path)
    path.write_text(text)
    with pytest.raises(BadFile, match=says):
        judgements.read_pool(path)


def test_a_pool_needs_the_texts_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    written(path)
    judgements.texts_path(path).write_text('{"query_id": "q1"}\n')
    with pytest.raises(BadFile, match=r"jsonl:1: doc_id: Field required. Make the pool again"):
        judgements.read_pool(path)
    judgements.texts_path(path).unlink()
    with pytest.raises(BadFile, match="missing file"):
        judgements.read_pool(path)


def test_a_grade_is_written_beside_those_that_others_gave_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    shown = written(path)
    judgements.regrade(path, shown.pairs[0], None, 2)
    now = judgements.regrade(path, shown.pairs[1], None, 1)
    assert now.grades == judgements.read_pool(path).grades == (2, 1, None)
    assert judgements.regrade(path, shown.pairs[1], 1, None).grades == (2, None, None)


def test_a_pair_that_somebody_else_judged_keeps_their_grade(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    first = written(path).pairs[0]
    judgements.regrade(path, first, None, 2)
    with pytest.raises(Overtaken, match="somebody else judged it 2 meanwhile") as found:
        judgements.regrade(path, first, None, 0)
    assert found.value.grade == 2
    with pytest.raises(Overtaken, match="took its grade away"):
        judgements.regrade(path, judgements.read_pool(path).pairs[1], 1, 0)
    assert judgements.read_pool(path).grades == (2, None, None)
    assert judgements.regrade(path, first, None, 2).grades == (2, None, None)
    assert judgements.regrade(path, first, 2, 0).grades == (0, None, None)


def test_a_pair_is_found_where_its_line_was_moved_to(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    shown = written(path)
    path.write_text("q2 0 a ?\nq1 0 b ?\n")
    assert judgements.regrade(path, shown.pairs[2], None, 1).grades == (1, None)
    with pytest.raises(BadFile, match="a for query q1 is gone"):
        judgements.regrade(path, shown.pairs[0], None, 1)


def test_no_grade_is_lost_where_many_judge_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    made = Pool(tuple(pair(f"d{at}") for at in range(40)), (None,) * 40)
    judgements.begin(path, made)
    with ThreadPoolExecutor(8) as judges:
        list(judges.map(lambda one: judgements.regrade(path, one, None, 1), made.pairs))
    assert judgements.read_pool(path).grades == (1,) * 40


@pytest.mark.parametrize("path", [".", "/"])
def test_a_folder_is_no_pool(path: str) -> None:
    with pytest.raises(BadFile, match=r"is (a folder|the root)"):
        judgements.read_pool(Path(path))


# ``harness.corpus.judgements``: a judged sample as a file

SAMPLE = Sample("old", "new", "P(rel=2)@5", 7, 0.25, {"q2": {"b": 1, "a": 0}}, "ada")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    judgements.write_samples(tmp_path, SAMPLE)
    (path,) = tmp_path.iterdir()
    assert path.name == judgements.name_of(SAMPLE)
    assert asdict(judgements.read_samples(path)) == asdict(SAMPLE)


def test_one_file_for_two_arms_and_a_measure(tmp_path: Path) -> None:
    for one in (SAMPLE, replace(SAMPLE, rate=0.5), replace(SAMPLE, measure="nDCG@10")):
        judgements.write_samples(tmp_path, one)
    assert sorted(judgements.read_samples(path).rate for path in tmp_path.iterdir()) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("old", "new"),
    [('"rate": 0.25', '"rate": 0.0'), ('"by"', '"who"'), ("{", "["), ('"a": 0', '"a": 0.5')],
)
def test_a_damaged_file_says_what_to_do(tmp_path: Path, old: str, new: str) -> None:
    judgements.write_samples(tmp_path, SAMPLE)
    path = tmp_path / judgements.name_of(SAMPLE)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(BadFile, match="Take the sample in again"):
        judgements.read_samples(path)
