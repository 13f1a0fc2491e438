"""Runs, judgements and collections in every form that is accepted."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest

import harness
from harness import api, load_collection, save_collection
from harness.api.comparison import Inference, Leaderboard, compare, leaderboard, score
from harness.api.data import QRELS, RUN, DataKind, QrelsLike, RunLike, load_qrels, load_run, values
from harness.api.export import to_latex, to_markdown
from harness.core.errors import (
    BadFile,
    BadName,
    DatasetError,
    EvidenceError,
    HarnessError,
    RunError,
    UnknownName,
)
from harness.core.run import Run, Status
from harness.corpus.cells import written_otherwise
from harness.corpus.runs import write_run
from harness.corpus.trec import write_run as write_trec
from harness.measures.quality import oracle
from tests.api.conftest import QUERIES as QUERIES_OF_TEXT
from tests.api.conftest import QUERIES as QUERIES_SCORED
from tests.api.conftest import Small
from tests.make.runs import qrels_of, run_of
from tests.source import ROOT, parsed

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
def test_every_message_says_what_may_be_given(kind: DataKind) -> None:
    with pytest.raises(kind.error) as raised:
        values(object(), kind)
    assert str(raised.value).endswith(kind.shapes)
    assert isinstance(raised.value, HarnessError)


def test_our_file_and_a_trec_file_of_one_run_rank_alike(tmp_path: Path, small: Small) -> None:
    write_run(small.better, tmp_path / "run.parquet")
    write_trec(tmp_path / "other.trec", small.better)
    ours, theirs = load_run(tmp_path / "run.parquet"), load_run(tmp_path / "other.trec")
    assert (ours.arm, theirs.arm) == ("better", "other")
    assert ours.query_ids == theirs.query_ids
    assert [ours.ranking(q) for q in ours.query_ids] == [theirs.ranking(q) for q in ours.query_ids]


def test_a_run_can_be_given_another_name(tmp_path: Path, small: Small) -> None:
    write_run(small.worse, tmp_path / "run.parquet")
    write_trec(tmp_path / "run.txt", small.worse)
    found = [load_run(str(tmp_path / name), arm="mine") for name in ("run.parquet", "run.txt")]
    assert [run.arm for run in found] == ["mine", "mine"]


def test_judgements_with_tabs_and_as_trec_are_one(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 2\nq1 0 d2 0\n")
    found = [load_qrels(tmp_path / name) for name in ("test.tsv", "qrels.txt")]
    assert found[0].grades == found[1].grades == {"q1": {"d1": 2, "d2": 0}}


@pytest.mark.parametrize("load", [load_run, load_qrels])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, load: object) -> None:
    assert callable(load)
    with pytest.raises(BadFile, match=r"absent\.trec"):
        load(tmp_path / "absent.trec")


def test_a_spoilt_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2\n")
    with pytest.raises(BadFile, match=r"a\.run:2: the line has 4 fields"):
        load_run(tmp_path / "a.run")


SURE = Inference(confidence=0.95, resamples=1000, seed=1)


NAMES = ["query_id", "q0", "doc_id", "rank", "score", "tag"]


@pytest.fixture
def lines() -> str:
    return "".join(f"q{n} Q0 {n:05d} 1 9.0 x\n" for n in (*range(1, 31), 12345))


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    path = tmp_path / "z.qrels"
    path.write_text("".join(f"q{n} 0 {n:05d} 1\n" for n in (*range(1, 31), 12345)))
    return path


def test_ids_that_pandas_read_as_numbers_are_refused(lines: str, qrels: Path) -> None:
    frame = pd.read_csv(io.StringIO(lines), sep=" ", names=NAMES)
    assert score(pd.read_csv(io.StringIO(lines), sep=" ", names=NAMES, dtype=str).astype(
        {"score": float}), qrels, ["nDCG@10"]).scores["nDCG@10"].mean == 1.0  # fmt: skip
    says = r"the run has the document '1', and the judgements have '00001'\. Read ids as text"
    with pytest.raises(DatasetError, match=says):
        score(frame, qrels, ["nDCG@10"])
    with pytest.raises(DatasetError, match=says):
        compare(frame, frame, qrels, "nDCG@10", sure=SURE)


@pytest.mark.parametrize(
    ("here", "there", "pair"),
    [
        ({"1", "12345"}, {"00001", "12345"}, ("1", "00001")),
        ({"00001", "12345"}, {"1", "12345"}, ("00001", "1")),
        ({"D1"}, {"d01"}, ("D1", "d01")),
        ({"1.0"}, {"1"}, ("1.0", "1")),
        ({"1", "2"}, {"3"}, None),
        ({"01", "1"}, {"01", "1", "2"}, None),
        ({"1"}, {"1", "01"}, None),
        ({"D1", "x"}, {"d1", "x"}, None),
        (set(), {"1"}, None),
    ],
)
def test_only_ids_that_fit_nothing_are_written_otherwise(
    here: set[str], there: set[str], pair: tuple[str, str] | None
) -> None:
    assert written_otherwise(here, there) == pair


def test_query_ids_are_held_too() -> None:
    judged = {"001": {"d": 1}, "002": {"e": 1}}
    with pytest.raises(
        DatasetError, match="the run has the query '1', and the judgements have '001'"
    ):
        score({"1": {"d": 1.0}, "2": {"e": 1.0}}, judged, ["nDCG@10"])


DOCUMENTS = pd.DataFrame({"doc_id": ["d1", "d2"], "title": ["T", ""], "text": ["one\ntwo", "ö"]})


QUERIES = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["=1+1", "two"]})


QRELS_FRAMES = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["d1", "d2"], "relevance": [2, 1]})


def test_frames_come_back(tmp_path: Path) -> None:
    folder = save_collection(tmp_path / "mine", DOCUMENTS, QUERIES, QRELS_FRAMES)
    collection = load_collection(folder)
    pd.testing.assert_frame_equal(collection.documents, DOCUMENTS)
    pd.testing.assert_frame_equal(collection.queries, QUERIES)
    pd.testing.assert_frame_equal(collection.qrels, QRELS_FRAMES)
    assert (
        score({"q1": {"d1": 1.0}, "q2": {}}, collection.qrels, ["RR"]).frame()["RR"].mean() == 0.5
    )


def test_a_title_may_be_left_out_and_ids_may_be_numbers(tmp_path: Path) -> None:
    numbered = DOCUMENTS.assign(doc_id=[1, 2]).drop(columns="title")
    judged = QRELS_FRAMES.assign(doc_id=[1, 2])
    collection = load_collection(save_collection(tmp_path / "mine", numbered, QUERIES, judged))
    assert collection.documents["doc_id"].tolist() == ["1", "2"]
    assert collection.documents["title"].tolist() == ["", ""]


@pytest.mark.parametrize(
    ("documents", "queries", "says"),
    [
        (DOCUMENTS.drop(columns="text"), QUERIES, "documents: .* lacks text. Rename it"),
        (DOCUMENTS.assign(doc_id=["d1", "d1"]), QUERIES, "documents row 1: the id 'd1' comes twi"),
        (DOCUMENTS.assign(doc_id=["d1", "d 2"]), QUERIES, "documents row 1: the id 'd 2' is not"),
        (DOCUMENTS.assign(doc_id=[1.5, 2.5]), QUERIES, "documents row 0: the id 1.5 is not"),
        (DOCUMENTS, QUERIES.assign(text=["a", 2.5]), r"queries row 1: .* is not a text; fill it"),
    ],
)
def test_a_frame_that_is_wrong_names_its_row(
    tmp_path: Path, documents: pd.DataFrame, queries: pd.DataFrame, says: str
) -> None:
    with pytest.raises(DatasetError, match=says):
        save_collection(tmp_path / "mine", documents, queries, QRELS_FRAMES)
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_is_there_is_kept(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="already exists; name a new folder"):
        save_collection(tmp_path, DOCUMENTS, QUERIES, QRELS_FRAMES)


def test_numbers_for_ids_with_zeros_are_refused(tmp_path: Path) -> None:
    documents = pd.DataFrame({"doc_id": [12], "text": ["shoes"]})
    queries = pd.DataFrame({"query_id": ["q"], "text": ["shoes"]})
    with pytest.raises(DatasetError, match="the document '00012' is '12' in documents"):
        save_collection(tmp_path / "shop", documents, queries, {"q": {"00012": 1}})  # type: ignore[arg-type]


@pytest.fixture
def board(small: Small, sure: Inference) -> Leaderboard:
    return leaderboard(small.control, small.candidates, small.qrels, ["RR@10", "P@1"], sure=sure)


def test_markdown_has_means_marks_and_what_they_mean(board: Leaderboard) -> None:
    lines = to_markdown(board).splitlines()
    assert lines[2:7] == [
        "|  | RR@10 | P@1 |",
        "| --- | ---: | ---: |",
        "| better | **0.8333**† | **0.6667**† |",
        "| control | 0.5000 | 0 |",
        "| worse | 0.2500‡ | 0 |",
    ]
    assert "Holm's correction over the whole table (comparisons: 4)" in lines[-1]


def test_latex_is_a_booktabs_table(board: Leaderboard) -> None:
    text = to_latex(board)
    rules = re.findall(r"\\(toprule|midrule|bottomrule)", text)
    assert rules == ["toprule", "midrule", "bottomrule"]
    assert r"better & \textbf{0.8333}$^{\dagger}$ & \textbf{0.6667}$^{\dagger}$ \\" in text
    assert r"worse & 0.2500$^{\ddagger}$ & 0 \\" in text
    assert text.index("Holm") > text.index(r"\end{tabular}")
    assert text.isascii()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a_b", r"a\_b"),
        ("50%&$#", r"50\%\&\$\#"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("~^<>", r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}"),
    ],
)
def test_a_name_cannot_write_latex(small: Small, sure: Inference, name: str, written: str) -> None:
    other = replace(small.better, arm=name)
    text = to_latex(leaderboard(small.control, [other], small.qrels, ["RR@10"], sure=sure))
    assert f"\n{written} & " in text


def test_a_name_cannot_break_a_markdown_table(small: Small, sure: Inference) -> None:
    other = run_of({q: ["a"] for q in QUERIES_OF_TEXT}, "a|b\n| c")
    text = to_markdown(leaderboard(small.control, [other], small.qrels, ["RR@10"], sure=sure))
    assert r"| a\|b \| c | **1.000**† |" in text


HEAVY = {"numpy", "pandas", "matplotlib", "scipy", "pyarrow", "harness.core"}


def loaded(code: str) -> set[str]:
    """Run code in a new interpreter, and give the modules that it brought in."""
    text = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_it_brings_in_nothing_else() -> None:
    found = loaded("import harness, harness.api\nhasattr(harness, 'nothing')")
    assert not found & HEAVY
    assert {name for name in found if name.startswith("harness")} == {"harness", "harness.api"}
    assert "harness.api" not in loaded("import harness\nhasattr(harness, '__wrapped__')")


def test_whoever_reads_a_run_does_not_wait_for_figures() -> None:
    found = loaded("import harness\nharness.load_run")
    assert "numpy" in found
    assert not found & {"matplotlib", "scipy"}


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_is_the_same_thing_in_both(name: str) -> None:
    found = getattr(harness, name)
    assert found is getattr(api, name)
    assert found.__name__ == name
    assert found.__module__.startswith("harness.")


def test_what_is_promised_what_is_found_and_what_is_typed_are_the_same() -> None:
    typed = {
        (node.module, alias.name)
        for node in ast.walk(parsed(ROOT / "harness" / "api" / "__init__.py"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.")
        for alias in node.names
        if alias.name != "part"
    }
    homes = {(f"harness.api.{home}", n) for home, names in api.HOMES.items() for n in names}
    homes |= {(f"harness.{home}", n) for home, names in api.SLICES.items() for n in names}
    assert typed == homes
    assert sorted(name for _, name in homes) == api.__all__
    stub = parsed(ROOT / "harness" / "__init__.pyi").body
    told = ["from harness.api import *", "__version__: str"]
    assert [ast.unparse(node) for node in stub] == told


def test_they_can_be_listed() -> None:
    assert set(api.__all__) < set(dir(harness))
    assert set(api.__all__) < set(dir(api))


@pytest.mark.parametrize("where", [harness, api])
def test_another_name_is_none(where: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lode_run'"):
        where.lode_run  # type: ignore[attr-defined]  # noqa: B018  it is to fail
    assert not hasattr(where, "_private")


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


def test_a_failed_query_is_no_number_in_the_frame() -> None:
    qrels = qrels_of({"q1": {"a": 1}, "q2": {"a": 1}})
    run = run_of({"q1": ["a"], "q2": []}, ended={"q2": Status.FAILED})
    found = score(run, qrels, ["RR@10", "P@1"])
    assert found.frame().index.tolist() == ["q1"]
    assert "1 failed" in found._repr_html_()


def test_the_table_is_escaped(small: Small) -> None:
    run = run_of({q: ["a"] for q in QUERIES_SCORED}, "<script>alert(1)</script>")
    said = score(run, small.qrels, ["nDCG@10"])._repr_html_()
    assert "<script>" not in said
    assert "&lt;script&gt;" in said


def test_an_unknown_measure_is_refused(small: Small) -> None:
    with pytest.raises(UnknownName, match="nDGC"):
        score(small.control, small.qrels, ["nDGC@10"])
