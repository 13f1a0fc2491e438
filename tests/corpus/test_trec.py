"""Judgements and runs as TREC wrote them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.errors import BadFile, RunError
from harness.core.records import Judgement, Qrels
from harness.core.run import Row, Run, Status
from harness.corpus import trec
from tests.corpus.conftest import Written

ID = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\n\r\v\f\ufeff"), min_size=1)
RANKINGS = st.dictionaries(ID, st.lists(ID, min_size=1, unique=True), min_size=1)


def of(rankings: dict[str, list[str]]) -> Run:
    hits = {q: [Hit(doc_id, 0.5, 1.0) for doc_id in docs] for q, docs in rankings.items()}
    return Run.of("arm", (Row(q, Status.ANSWERED, found) for q, found in hits.items()))


@given(RANKINGS)
def test_a_run_keeps_its_rankings(rankings: dict[str, list[str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        trec.write_run(path, of(rankings))
        read = trec.read_run(path, "arm")
    assert {q: list(read.ranking(q)) for q in read.query_ids} == rankings


@given(st.dictionaries(ID, st.dictionaries(ID, st.integers(-3, 9), min_size=1), min_size=1))
def test_judgements_come_back_as_they_were(grades: dict[str, dict[str, int]]) -> None:
    qrels = Qrels.of(Judgement(q, d, g) for q, row in grades.items() for d, g in row.items())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "qrels"
        trec.write_qrels(path, qrels)
        assert trec.qrels(path) == qrels


def test_the_written_score_is_minus_the_rank(tmp_path: Path) -> None:
    trec.write_run(tmp_path / "run", of({"q": ["b", "a"]}))
    assert (tmp_path / "run").read_text() == "q Q0 b 1 -1 arm\nq Q0 a 2 -2 arm\n"


def test_an_arm_that_cannot_be_a_tag_is_refused(tmp_path: Path) -> None:
    run = Run.of("my arm", [Row("q", Status.ANSWERED)])
    with pytest.raises(RunError, match=r"arm 'my arm' cannot be the tag.*rename"):
        trec.write_run(tmp_path / "run", run)


TIED = ["9", "10", "z", "\u00e9", "\uffee", "\U00010000", "a", "A"]


def test_ties_fall_as_in_trec_eval(written: Written) -> None:
    path = written("".join(f"q Q0 {d} 1 0.5 t\n" for d in TIED) + "q Q0 top 9 0.7 t\n")
    ranking = trec.read_run(path, "arm").ranking("q")
    assert ranking[0] == "top"
    assert ranking[1:] == tuple(sorted(TIED, key=lambda d: d.encode(), reverse=True))
    scores = {"q": dict.fromkeys(TIED, 0.5) | {"top": 0.7}}
    for rank, doc_id in enumerate(ranking, start=1):
        seen = pytrec_eval.RelevanceEvaluator({"q": {doc_id: 1}}, {"recip_rank"}).evaluate(scores)
        assert seen["q"]["recip_rank"] == pytest.approx(1 / rank)


def test_scores_are_compared_as_float64(written: Written) -> None:
    path = written("q Q0 a 2 1.000000001 t\nq Q0 b 1 1.0 t\n")
    assert trec.read_run(path, "arm").ranking("q") == ("a", "b")


def test_the_highest_showing_of_a_document_stays_and_the_other_is_counted(written: Written) -> None:
    path = written("q Q0 a 1 1 t\nq Q0 b 2 2 t\nq Q0 a 3 3 t\n")
    run = trec.read_run(path, "arm")
    assert run.ranking("q") == ("a", "b")
    assert run.duplicates.tolist() == [1]


def test_scores_become_places_between_lowest_and_highest(written: Written) -> None:
    path = written("q Q0 a 1 -2 t\nq Q0 b 2 -3 t\nq Q0 c 3 -6 t\np Q0 a 1 7 t\n")
    run = trec.read_run(path, "arm")
    assert [(h.score, h.raw_score) for h in run.hits("q")] == [(1, -2), (0.75, -3), (0, -6)]
    assert [h.score for h in run.hits("p")] == [1]


def test_the_widest_scores_do_not_overflow(written: Written) -> None:
    run = trec.read_run(written("q Q0 a 1 1.7e308 t\nq Q0 b 1 -1.7e308 t\n"), "arm")
    assert [h.score for h in run.hits("q")] == [1, 0]


def test_a_query_without_a_line_was_not_asked_and_a_strange_one_is_kept(written: Written) -> None:
    run = trec.read_run(written("b Q0 d 1 1 t\nx Q0 d 1 1 t\n"), "arm", asked=["a", "b"])
    assert run.query_ids == ("a", "b", "x")
    assert run.status.tolist() == [Status.NOT_ASKED, Status.ANSWERED, Status.ANSWERED]


@pytest.mark.parametrize(
    "score", ["nan", "inf", "-Infinity", "1e999", "high", "0x1", "1_000", "\u0663", "1e"]
)
def test_a_score_that_is_no_finite_number_is_refused(written: Written, score: str) -> None:
    path = written(f"q Q0 a 1 1 t\nq Q0 b 2 {score} t\n")
    with pytest.raises(BadFile, match=f"file:2: the score '{score}' is not a finite number"):
        trec.read_run(path, "arm")


def test_a_short_line_and_an_empty_run_are_refused(written: Written) -> None:
    with pytest.raises(BadFile, match=r"file:1: the line has 5 fields, not 6\. Write: query Q0"):
        trec.read_run(written("q Q0 a 1 1"), "arm")
    with pytest.raises(BadFile, match="the run is empty"):
        trec.read_run(written("\n"), "arm")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q 0 e", "the line has 3 fields, not 4. Write: query 0 document grade"),
        ("q 0 e 0.5", "the grade '0.5' is not an integer. Map the scale"),
        ("q 0 e 1_0", "the grade '1_0' is not an integer"),
        ("q 0 e \u0663", "the grade '\u0663' is not an integer"),
        ("q 0 d 1", "d is judged for query q on line 1 already. Keep one"),
    ],
)
def test_a_bad_judgement_is_told_with_its_line(written: Written, line: str, says: str) -> None:
    with pytest.raises(BadFile, match=rf"file:2: {says}"):
        trec.qrels(written(f"q 0 d 1\n{line}\n"))


def test_no_judgement_is_an_error(written: Written) -> None:
    with pytest.raises(BadFile, match="it holds no judgement"):
        trec.qrels(written(""))
