"""What other tools hold is read wherever a run or judgements are, or is refused by its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest

from harness.api.comparison import Inference, compare, leaderboard, score
from harness.api.data import QRELS, RUN, Kind, QrelsLike, RunLike, load_qrels, load_run, values
from harness.core.errors import BadName, DatasetError, EvidenceError, HarnessError, RunError
from harness.core.run import Run, Status
from tests.api.conftest import Small

SCORES: Mapping[str, Mapping[str, float]] = {
    "q1": {"d1": 1.5, "d2": 2.5, "d3": 2.5},
    "q2": {"d1": -1.0},
}
GRADES: Mapping[str, Mapping[str, int]] = {"q1": {"d1": 1, "d3": 0}, "q2": {"d1": 2}}
LINES = [(query, doc, value) for query, of in SCORES.items() for doc, value in of.items()]
JUDGED = [(query, doc, grade) for query, of in GRADES.items() for doc, grade in of.items()]


class OfRanx:
    """A run or judgements as ranx holds them."""

    def __init__(self, held: Mapping[str, Mapping[str, Any]], name: str | None = None) -> None:
        self.held, self.name = held, name

    def to_dict(self) -> Mapping[str, Mapping[str, Any]]:
        return self.held


def frame(names: tuple[str, str, str], rows: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(names))


def trec(folder: Path, lines: list[str]) -> Path:
    path = folder / "run.trec"
    path.write_text("".join(lines))
    return path


RUNS: dict[str, Callable[[Path], RunLike]] = {
    "mapping": lambda _: SCORES,
    "a TREC file": lambda folder: trec(folder, [f"{q} Q0 {d} 0 {s} x\n" for q, d, s in LINES]),
    "frame of ir_measures": lambda _: frame(("query_id", "doc_id", "score"), LINES),
    "frame of ranx": lambda _: frame(("q_id", "doc_id", "score"), LINES),
    "frame of PyTerrier": lambda _: frame(("qid", "docno", "score"), LINES),
    "ranx": lambda _: OfRanx(SCORES),
    "ScoredDoc": lambda _: [ir_measures.ScoredDoc(*line) for line in LINES],
    "generator": lambda _: (ir_measures.ScoredDoc(*line) for line in LINES),
    "tuples": lambda _: LINES,
    "numpy": lambda _: [(query, doc, np.float32(value)) for query, doc, value in LINES],
    "a run": lambda _: load_run(SCORES),
}
JUDGEMENTS: dict[str, Callable[[Path], QrelsLike]] = {
    "mapping": lambda _: GRADES,
    "a TREC file": lambda folder: trec(folder, [f"{q} 0 {d} {g}\n" for q, d, g in JUDGED]),
    "frame of ir_measures": lambda _: frame(("query_id", "doc_id", "relevance"), JUDGED),
    "frame of ranx": lambda _: frame(("q_id", "doc_id", "score"), JUDGED),
    "frame of PyTerrier": lambda _: frame(("qid", "docno", "label"), JUDGED),
    "frame of BEIR": lambda _: frame(("query-id", "corpus-id", "score"), JUDGED),
    "ranx": lambda _: OfRanx(GRADES),
    "Qrel": lambda _: (ir_measures.Qrel(*line) for line in JUDGED),
    "tuples": lambda _: JUDGED,
    "whole floats": lambda _: frame(("qid", "docno", "rel"), JUDGED).astype({"rel": float}),
    "judgements": lambda _: load_qrels(GRADES),
}


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS.keys())
def test_every_shape_of_a_run_is_the_trec_file(
    tmp_path: Path, make: Callable[[Path], RunLike]
) -> None:
    found = load_run(make(tmp_path))
    assert found.arm == "run"
    assert found.query_ids == ("q1", "q2")
    assert found.ranking("q1") == ("d3", "d2", "d1")
    assert [hit.raw_score for hit in found.hits("q1")] == [2.5, 2.5, 1.5]
    assert [hit.score for hit in found.hits("q1")] == [1.0, 1.0, 0.0]
    assert load_run(make(tmp_path), arm="mine").arm == "mine"


@pytest.mark.parametrize("make", JUDGEMENTS.values(), ids=JUDGEMENTS.keys())
def test_every_shape_of_judgements_is_the_trec_file(
    tmp_path: Path, make: Callable[[Path], QrelsLike]
) -> None:
    qrels = load_qrels(make(tmp_path))
    assert qrels.grades == GRADES
    assert {type(grade) for of in qrels.grades.values() for grade in of.values()} == {int}


def test_ids_that_pandas_reads_as_numbers_are_text_again() -> None:
    rows = frame(("query_id", "doc_id", "score"), [(1, 7, 0.5), (2, 8, 0.25)])
    assert load_run(rows).ranking("1") == ("7",)


def test_a_query_that_was_answered_with_nothing() -> None:
    found = load_run({"q1": {"d1": 1.0}, "q2": {}}, empty=["q3"])
    assert found.query_ids == ("q1", "q2", "q3")
    assert found.count(Status.ANSWERED) == 3
    assert list(score(found, GRADES, ["nDCG@10"]).scores["nDCG@10"].values) == [1.0, 0.0]


def test_a_run_of_ranx_brings_its_name() -> None:
    assert load_run(OfRanx(SCORES, "bm25")).arm == "bm25"
    with pytest.raises(BadName, match=r"bm25 \(tuned\).* name of an arm"):
        load_run(OfRanx(SCORES, "bm25 (tuned)"))


def test_everything_that_takes_a_run_takes_each_shape(small: Small, sure: Inference) -> None:
    control, better = held(small.control), held(small.better)
    grades = small.qrels.grades
    rows = [ir_measures.ScoredDoc(q, d, s) for q, of in better.items() for d, s in of.items()]
    apart = compare(control, iter(rows), grades, "nDCG@10", sure=sure)
    same = compare(small.control, small.better, small.qrels, "nDCG@10", sure=sure)
    assert (apart.control, apart.candidate) == ("control", "candidate")
    assert apart.estimate == same.estimate
    board = leaderboard(control, [OfRanx(better), rows], grades, ["RR"], sure=sure)
    assert set(board.scores) == {"control", "candidate-1", "candidate-2"}
    assert score(pd.DataFrame(rows), grades, ["RR"]).scores["RR"].mean == board.mean(
        "candidate-2", "RR"
    )
    with pytest.raises(EvidenceError, match="two runs are named bm25"):
        leaderboard(OfRanx(control, "bm25"), [OfRanx(better, "bm25")], grades, ["RR"], sure=sure)


def held(run: Run) -> dict[str, dict[str, float]]:
    return {
        query_id: {doc_id: -float(rank) for rank, doc_id in enumerate(shown)}
        for query_id, shown in run.rankings(run.query_ids).items()
    }


WRONG_RUNS: list[tuple[Any, str]] = [
    ({"q1": {"d1": float("nan")}}, r"run\['q1'\]\['d1'\]: the score nan of d1 is not a finite"),
    ({"q1": {"d1": "1.5"}}, r"run\['q1'\]\['d1'\]: the score '1.5'"),
    ({"q1": {"d1": True}}, r"the score True"),
    ({"q1": ["d1", "d2"]}, r"run\['q1'\] is a list, not a mapping of document to score\. Give"),
    ({"q1": {"": 1.0}}, r"run\['q1'\]\[''\]: the document id '' is not a text"),
    ({"q 1": {"d1": 1.0}}, r"run\['q 1'\]: the query id 'q 1' is not a text without white space"),
    ({None: {"d1": 1.0}}, r"run\[None\]: the query id None"),
    ({}, r"run: it is empty\. Give \{query: \{document: score\}\}"),
    ([], r"run: it is empty"),
    ([("q1", "d1", 1.0), ("q1", "d2")], r"list whose item 1 is a tuple\. Give"),
    ([("q1", "d1", 1.0), ("q1", "d2", None)], r"run item 1: the score None of d2"),
    ([ir_measures.Qrel("q1", "d1", 1)], r"list whose item 0 is a Qrel"),
    (["q1 Q0 d1 1 1.0 x"], r"list whose item 0 is a str"),
    (3, r"run: cannot be read from a int\. Give"),
    (None, r"cannot be read from a NoneType"),
    (frame(("query_id", "doc", "score"), LINES), r"the columns query_id, doc, score, and lacks"),
    (frame(("q_id", "doc", "score"), LINES), r"one doc_id\. Rename it: frame\.rename\(columns="),
    (frame(("query_id", "doc_id", "score"), [("q1", "d1", None)]), r"run row 0: the score"),
]  # fmt: skip
WRONG_QRELS: list[tuple[Any, str]] = [
    ({"q1": {"d1": 0.5}}, r"qrels\['q1'\]\['d1'\]: the grade 0.5 is not an integer"),
    ({"q1": {"d1": float("inf")}}, r"the grade inf"),
    ({"q1": {"d1": False}}, r"the grade False"),
    ({"q1": {}}, r"qrels: it holds no judgement\. Give"),
    ([("q1", "d1", 1), ("q1", "d1", 2)], r"d1 is judged twice for query q1"),
    ([ir_measures.ScoredDoc("q1", "d1", 1.0)], r"list whose item 0 is a ScoredDoc"),
    (frame(("query_id", "doc_id", "x"), JUDGED), r"lacks one relevance"),
    (b"q1 0 d1 1", r"qrels: cannot be read from a bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), WRONG_RUNS, ids=[said[:30] for _, said in WRONG_RUNS])
def test_what_is_no_run_is_named_by_its_place(given: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(RunError, match=said):
        load_run(given)


@pytest.mark.parametrize(("given", "said"), WRONG_QRELS, ids=[said[:30] for _, said in WRONG_QRELS])
def test_what_is_no_judgement_is_named_by_its_place(given: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(DatasetError, match=said):
        load_qrels(given)


@pytest.mark.parametrize("kind", [RUN, QRELS], ids=lambda kind: kind.name)
def test_every_message_says_what_may_be_given(kind: Kind) -> None:
    with pytest.raises(kind.error) as raised:
        values(object(), kind)
    assert str(raised.value).endswith(kind.shapes)
    assert isinstance(raised.value, HarnessError)
