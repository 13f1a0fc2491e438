"""Runs, judgements and collections in every form that is accepted."""

import ast
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest

from harness import api, load_collection, save_collection
from harness.api.comparison import compare, score
from harness.api.data import QrelsLike, RunLike, load_qrels, load_run
from harness.core.errors import DatasetError, RunError
from harness.core.run import Status
from harness.measures.quality import oracle
from tests.api.conftest import QUERIES as QUERIES_SCORED
from tests.api.conftest import SURE, Small
from tests.make.runs import run_of
from tests.source import ROOT, parsed

Q1_SCORES = {"d1": 1.5, "d2": 2.5, "d3": 2.5}
SCORES: Mapping[str, Mapping[str, float]] = {"q1": Q1_SCORES, "q2": {"d1": -1.0}}
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


def test_a_query_that_was_answered_with_nothing() -> None:
    found = load_run({"q1": {"d1": 1.0}, "q2": {}}, empty=["q3"])
    assert found.query_ids == ("q1", "q2", "q3")
    assert found.count(Status.ANSWERED) == 3
    assert list(score(found, GRADES, ["nDCG@10"]).scores["nDCG@10"].values) == [1.0, 0.0]


WRONG_RUNS: list[tuple[Any, str]] = [
    ({"q1": {"d1": float("nan")}}, r"run\['q1'\]\['d1'\]: the score nan of d1 is not a finite"),
    ({"q1": ["d1", "d2"]}, r"run\['q1'\] is a list, not a mapping of document to score\. Give"),
    ({"q 1": {"d1": 1.0}}, r"run\['q 1'\]\['d1'\]: the query id 'q 1' is not a text"),
    ([], r"run: it is empty"),
    ([("q1", "d1", 1.0), ("q1", "d2")], r"list whose item 1 is a tuple\. Give"),
    (3, r"run: cannot be read from a int\. Give"),
    (frame(("q_id", "doc", "score"), LINES), r"one doc_id\. Rename it: frame\.rename\(columns="),
]


@pytest.mark.parametrize(("given", "said"), WRONG_RUNS, ids=[said[:30] for _, said in WRONG_RUNS])
def test_what_is_no_run_is_named_by_its_place(given: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(RunError, match=said):
        load_run(given)


NAMES = ["query_id", "q0", "doc_id", "rank", "score", "tag"]


def test_ids_that_pandas_read_as_numbers_are_refused() -> None:
    numbers = (*range(1, 31), 12345)
    qrels = {f"q{n}": {f"{n:05d}": 1} for n in numbers}
    lines = "".join(f"q{n} Q0 {n:05d} 1 9.0 x\n" for n in numbers)
    frame = pd.read_csv(io.StringIO(lines), sep=" ", names=NAMES)
    texts = pd.read_csv(io.StringIO(lines), sep=" ", names=NAMES, dtype={"doc_id": str})
    assert score(texts, qrels, ["nDCG@10"]).scores["nDCG@10"].mean == 1.0
    says = r"the run has the document '1', and the judgements have '00001'\. Read ids as text"
    with pytest.raises(DatasetError, match=says):
        score(frame, qrels, ["nDCG@10"])
    with pytest.raises(DatasetError, match=says):
        compare(frame, frame, qrels, "nDCG@10", sure=SURE)


DOCUMENTS = pd.DataFrame({"doc_id": ["d1", "d2"], "title": ["T", ""], "text": ["one\ntwo", "ö"]})
QUERIES = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["=1+1", "two"]})
QRELS_FRAMES = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["d1", "d2"], "relevance": [2, 1]})


def test_frames_come_back(tmp_path: Path) -> None:
    folder = save_collection(tmp_path / "mine", DOCUMENTS, QUERIES, QRELS_FRAMES)
    collection = load_collection(folder)
    pd.testing.assert_frame_equal(collection.documents, DOCUMENTS)
    pd.testing.assert_frame_equal(collection.queries, QUERIES)
    pd.testing.assert_frame_equal(collection.qrels, QRELS_FRAMES)
    scored = score({"q1": {"d1": 1.0}, "q2": {}}, collection.qrels, ["RR"])
    assert scored.frame()["RR"].mean() == 0.5
    with pytest.raises(DatasetError, match="already exists; name a new folder"):
        save_collection(folder, DOCUMENTS, QUERIES, QRELS_FRAMES)


def test_what_is_promised_what_is_found_and_what_is_typed_are_the_same() -> None:
    typed = {
        (node.module, alias.name)
        for node in ast.walk(parsed(ROOT / "harness" / "api" / "__init__.py"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.")
        for alias in node.names
        if alias.name != "part"
    }
    homes = {(f"harness.{home}", n) for home, names in api.HOMES.items() for n in names}
    assert typed == homes
    assert sorted(name for _, name in homes) == api.__all__
    stub = parsed(ROOT / "harness" / "__init__.pyi").body
    told = ["from harness.api import *", "__version__: str"]
    assert [ast.unparse(node) for node in stub] == told


def test_values_are_those_of_the_library(small: Small) -> None:
    measures = ["nDCG@10", "RR@10", "P@2"]
    found = score(small.better, small.qrels, measures)
    theirs = oracle(small.better, small.qrels, measures, QUERIES_SCORED)
    frame = found.frame()
    assert repr(found) == "better: nDCG@10 0.8770, RR@10 0.8333, P@2 0.5000"
    assert list(frame.columns) == measures
    for name in measures:
        assert frame[name].to_dict() == dict(theirs[name].by_query)


def test_judged_queries_are_asked_where_none_are_named(small: Small) -> None:
    run = run_of({"q00": ["a"], "unjudged": ["a"]})
    found = score(run, small.qrels, ["RR@10"])
    assert found.scores["RR@10"].by_query == {"q00": 1.0}
    assert len(found.scores["RR@10"].undefined["not_asked"]) == len(QUERIES_SCORED) - 1
    only = score(run, small.qrels, ["RR@10"], queries=["q00", "unjudged"])
    assert only.scores["RR@10"].mean == 1
    assert only.scores["RR@10"].undefined == {"unjudged": ("unjudged",)}
