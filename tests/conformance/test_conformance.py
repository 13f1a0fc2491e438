"""Where libraries disagree, and runs made at random."""

import math
import struct
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import agree
from harness.core.errors import BadFile, DatasetError, EvidenceError, InvalidArm, RunError
from harness.core.records import Qrels
from harness.core.run import Run, Status
from harness.corpus.trec import MissingQuery, read_run
from harness.measures.quality import score
from tests.make.runs import qrels_of, run_of

RANKED = ("nDCG@10", "RR@10", "RR", "P@1", "P@10", "AP@100", "R@50")
LOG3 = 1 / math.log2(3)


def value(run: Run, qrels: Qrels, name: str) -> float:
    return score(run, qrels, (name,), run.query_ids)[name].by_query["q"]


def imported(folder: Path, hits: list[tuple[str, float]]) -> Run:
    """Read a run file of one query whose lines stand in the order given."""
    file = folder / "run.trec"
    lines = (f"q Q0 {d} {at} {s!r} tag\n" for at, (d, s) in enumerate(hits, start=1))
    file.write_text("".join(lines), encoding="utf-8")
    return read_run(file, "imported")


def trec_eval(run: dict[str, float], grades: dict[str, int], measure: str) -> float:
    evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {measure})
    return float(next(iter(evaluator.evaluate({"q": run})["q"].values())))


def test_c01_gain_is_linear_unless_the_name_says_exponential() -> None:
    """2^grade - 1 is some libraries' nDCG without saying so; ours is the grade."""
    run = run_of({"q": ["a", "b"]})
    qrels = qrels_of({"q": {"a": 1, "b": 3}})
    linear = (1 + 3 * LOG3) / (3 + LOG3)
    assert value(run, qrels, "nDCG@10") == pytest.approx(linear, abs=1e-12)
    exponential = (1 + 7 * LOG3) / (7 + LOG3)
    assert value(run, qrels, "nDCG(dcg='exp-log2')@10") == pytest.approx(exponential, abs=1e-12)
    assert trec_eval({"a": 2.0, "b": 1.0}, {"a": 1, "b": 3}, "ndcg_cut.10") == pytest.approx(linear)


def test_c02_tied_scores_are_read_as_trec_eval_reads_them(tmp_path: Path) -> None:
    """All scores tie, the relevant document has the lowest id: RR is 1/3, or 1, or any order."""
    tied = {"a": 1.0, "b": 1.0, "c": 1.0}
    qrels = qrels_of({"q": {"a": 1}})
    found = score(imported(tmp_path, [*tied.items()]), qrels, RANKED, ("q",))
    for name in ("RR", "RR@10", "AP@100"):
        assert found[name].by_query["q"] == pytest.approx(1 / 3, abs=1e-12)
    assert found["nDCG@10"].by_query["q"] == pytest.approx(0.5, abs=1e-12)
    assert trec_eval(tied, {"a": 1}, "recip_rank") == pytest.approx(1 / 3)
    (theirs,) = ir_measures.iter_calc([ir_measures.RR @ 10], {"q": {"a": 1}}, {"q": tied})
    assert theirs.value == 1.0


@settings(deadline=None, max_examples=50)
@given(levels=st.lists(st.integers(0, 2), min_size=2, max_size=60), relevant=st.integers(0, 59))
def test_c03_every_measure_of_one_call_sees_one_ranking(levels: list[int], relevant: int) -> None:
    """In a 60-way tie ir-measures says RR@10 = 1 beside P@1 = 0 and RR = 1/60 in one call."""
    documents = [f"d{at:02}" for at in range(len(levels))]
    falling = sorted(levels, reverse=True)
    run = run_of({"q": documents}, scores={"q": [float(level) for level in falling]})
    at = relevant % len(documents)
    qrels = qrels_of({"q": {documents[at]: 1}})
    found = {n: s.by_query["q"] for n, s in score(run, qrels, RANKED, ("q",)).items()}
    rank = at + 1
    assert found["RR"] == pytest.approx(1 / rank, abs=1e-12)
    assert found["AP@100"] == pytest.approx(1 / rank, abs=1e-12)
    assert found["RR@10"] == pytest.approx(1 / rank if rank <= 10 else 0.0, abs=1e-12)
    assert found["P@1"] == (1.0 if rank == 1 else 0.0)
    discounted = 1 / math.log2(rank + 1) if rank <= 10 else 0.0
    assert found["nDCG@10"] == pytest.approx(discounted, abs=1e-12)


def test_c04_scores_that_only_float64_tells_apart_are_no_tie(tmp_path: Path) -> None:
    """1 + 1e-9 is 1 in float32, so trec_eval's code sees a tie and says .63; we say 1."""
    assert struct.unpack("f", struct.pack("f", 1 + 1e-9))[0] == 1.0
    run = imported(tmp_path, [("b", 1.0), ("a", 1 + 1e-9)])
    qrels = qrels_of({"q": {"a": 1}})
    assert run.ranking("q") == ("a", "b")
    for name in ("nDCG@10", "RR@10", "RR", "AP@100"):
        assert value(run, qrels, name) == 1.0
    theirs = trec_eval({"a": 1 + 1e-9, "b": 1.0}, {"a": 1}, "ndcg_cut.10")
    assert theirs == pytest.approx(LOG3)


def test_c05_a_judged_query_missing_from_the_run_is_lost_and_counted(tmp_path: Path) -> None:
    """Dropped by trec_eval, 0 in others, an error in ranx; 0 here where it is said to be empty."""
    run = run_of({"here": ["a"], "unasked": []}, ended={"unasked": Status.NOT_ASKED})
    qrels = qrels_of({q: {"a": 1} for q in ("here", "gone", "unasked")})
    asked = ("here", "gone", "unasked")
    found = score(run, qrels, RANKED, asked)["nDCG@10"]
    assert found.by_query == {"here": 1.0}
    assert found.undefined == {"not_asked": ("gone", "unasked")}
    (tmp_path / "x.trec").write_text("here Q0 a 1 1.0 x\n")
    empty = read_run(tmp_path / "x.trec", "x", asked, missing=MissingQuery.EMPTY)
    said = score(empty, qrels, RANKED, asked)["nDCG@10"]
    assert said.by_query == {"here": 1.0, "gone": 0.0, "unasked": 0.0}


def test_c06_an_empty_answer_scores_0_and_is_counted() -> None:
    """The query is dropped by trectools."""
    run = run_of({"full": ["a"], "empty": []})
    qrels = qrels_of({"full": {"a": 1}, "empty": {"a": 1}})
    for scores in score(run, qrels, RANKED, run.query_ids).values():
        assert scores.by_query["empty"] == 0.0
        assert scores.undefined == {}


def test_c07_a_query_without_judgements_is_left_out_of_quality_and_kept_for_overlap() -> None:
    """It counts as 0 in trectools, and ends ranx with an error."""
    run = run_of({"judged": ["a"], "unjudged": ["a", "b"]})
    found = score(run, qrels_of({"judged": {"a": 1}}), ("nDCG@10",), run.query_ids)["nDCG@10"]
    assert found.by_query == {"judged": 1.0}
    assert found.undefined == {"unjudged": ("unjudged",)}
    overlap = agree(run, run, depths=(10,), p=0.9).scores["Jaccard@10"]
    assert overlap.by_query == {"judged": 1.0, "unjudged": 1.0}


def test_c08_a_query_without_relevant_document_is_in_no_mean() -> None:
    """0 in most means, skipped in some, as in ours."""
    run = run_of({"answerable": ["a"], "negative": ["a"]})
    qrels = qrels_of({"answerable": {"a": 1}, "negative": {"a": 0}})
    found = score(run, qrels, (*RANKED, "Judged@10"), run.query_ids)
    assert found["nDCG@10"].mean == 1.0
    for name in RANKED:
        assert found[name].undefined == {"negative_query": ("negative",)}
    assert found["Judged@10"].by_query == {"answerable": 1.0, "negative": 1.0}


LONG = [f"d{at:03}" for at in range(1, 151)]


@pytest.mark.parametrize(
    ("ranking", "grades", "wanted"),
    [
        # A negative gain at rank 1 makes nDCG .191 in szl and rankkit.
        pytest.param(
            ["spam", "a"], {"spam": -1, "a": 1},
            {"nDCG@10": LOG3, "nDCG(dcg='exp-log2')@10": LOG3, "AP@100": 0.5},
            id="c09 a negative grade gains 0",
        ),
        # A first relevant document at rank 11 is worth 1/11 where recip_rank is taken for RR@10.
        pytest.param(LONG[:11], {"d011": 1}, {"RR@10": 0, "RR": 1 / 11}, id="c10 rr at 10 is cut"),
        pytest.param(LONG[:11], {"d010": 1}, {"RR@10": 0.1}, id="c10 at its cutoff"),
        # The workbench of OpenSearch divides by the hits returned, and says 1.
        pytest.param(
            ["a", "b", "c"], {"a": 1, "b": 1, "c": 1}, {"P@10": 0.3}, id="c11 P divides by k"
        ),
        # Dividing by min(k, relevant), as pyvespa does, says 1 where two thirds were reached.
        pytest.param(
            LONG[:100], dict.fromkeys(LONG, 1), {"AP@100": 2 / 3, "R@100": 2 / 3},
            id="c12 AP divides by all relevant",
        ),
        # Elasticsearch cuts the ideal at the hits returned, and says 1.
        pytest.param(
            ["a"], {"a": 1, "b": 3, "c": 2, "d": 0},
            {"nDCG@10": 1 / (3 + 2 * LOG3 + 1 / 2), "nDCG@2": 1 / (3 + 2 * LOG3)},
            id="c13 the ideal is over all judged documents",
        ),
    ],
)  # fmt: skip
def test_c09_to_c13_values_by_hand(
    ranking: list[str], grades: dict[str, int], wanted: dict[str, float]
) -> None:
    found = score(run_of({"q": ranking}), qrels_of({"q": grades}), tuple(wanted), ("q",))
    for name, exact in wanted.items():
        assert found[name].by_query["q"] == pytest.approx(exact, abs=1e-12), name


def test_c14_no_value_is_rounded() -> None:
    """RRE and the workbench floor to two places, BEIR to five, gdeval to five."""
    run = run_of({"q": ["x", "a", "b"]})
    qrels = qrels_of({"q": {"a": 1, "b": 2, "c": 1}})
    names = ("nDCG@10", "nDCG(dcg='exp-log2')@10", "R@10", "AP@100", "Judged@10")
    found = score(run, qrels, names, ("q",))
    ideal = {"nDCG@10": 2 + LOG3 + 1 / 2, "nDCG(dcg='exp-log2')@10": 3 + LOG3 + 1 / 2}
    gained = {"nDCG@10": LOG3 + 2 / 2, "nDCG(dcg='exp-log2')@10": LOG3 + 3 / 2}
    wanted = {name: gained[name] / ideal[name] for name in ideal}
    wanted |= {"R@10": 2 / 3, "AP@100": (1 / 2 + 2 / 3) / 3, "Judged@10": 2 / 3}
    for name, exact in wanted.items():
        assert abs(found[name].by_query["q"] - exact) < 1e-15
        assert round(exact, 5) != exact


@pytest.mark.parametrize("grade", [0.5, 1.0, "1", True, None])
def test_c15_a_grade_is_an_integer(grade: object) -> None:
    """A grade of .5 is dropped by ranx and used by trectools."""
    with pytest.raises(DatasetError, match="is not an integer; map the scale to integers"):
        qrels_of({"q": {"a": grade}})  # type: ignore[dict-item]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_c16_a_score_is_a_finite_number(bad: float, tmp_path: Path) -> None:
    """NaN is sorted last in some libraries and first in RR@10 of ir-measures."""
    with pytest.raises(RunError, match="a score must be a finite number"):
        run_of({"q": ["a", "b"]}, scores={"q": [bad, 1.0]})
    with pytest.raises(BadFile, match=r"run\.trec:1: "):
        imported(tmp_path, [("a", bad), ("b", 1.0)])


def test_c17_an_empty_run_is_invalid(tmp_path: Path) -> None:
    """NaN, 0, or a PASS elsewhere."""
    qrels = qrels_of({"q": {"a": 1}})
    with pytest.raises(InvalidArm, match="none of 1 queries was answered"):
        score(run_of({}), qrels, ("nDCG@10",), ("q",))
    broke = run_of({"q": []}, ended={"q": Status.FAILED})
    with pytest.raises(InvalidArm, match="broken"):
        score(broke, qrels, ("nDCG@10",), ("q",))
    with pytest.raises(EvidenceError, match="query set is empty"):
        score(run_of({"q": ["a"]}), qrels, ("nDCG@10",), ())
    with pytest.raises(EvidenceError, match="no query to compare"):
        agree(run_of({}), run_of({}), depths=(10,), p=0.9)
    with pytest.raises(BadFile, match="empty"):
        imported(tmp_path, [])


def test_c18_a_duplicate_keeps_its_first_place_and_is_counted() -> None:
    """Elsewhere a duplicate is collapsed without a word."""
    run = run_of({"q": ["a", "x", "a", "b"]})
    qrels = qrels_of({"q": {"a": 1, "b": 1}})
    assert run.ranking("q") == ("a", "x", "b")
    assert run.duplicates.tolist() == [1]
    assert value(run, qrels, "P@10") == pytest.approx(0.2, abs=1e-12)
    assert value(run, qrels, "AP@100") == pytest.approx((1 + 2 / 3) / 2, abs=1e-12)
    wanted = (1 + 1 / 2) / (1 + LOG3)
    assert value(run, qrels, "nDCG@10") == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high"), [("z", "é"), ("10", "9"), ("\uffee", "\U00010000"), ("Z", "a"), ("a", "aa")]
)
def test_c19_ids_are_in_the_byte_order_of_utf_8(low: str, high: str, tmp_path: Path) -> None:
    """Among ties the greater id comes first, by bytes: not by number, locale or UTF-16 unit."""
    assert low.encode() < high.encode()
    for hits in ([(low, 1.0), (high, 1.0)], [(high, 1.0), (low, 1.0)]):
        run = imported(tmp_path, hits)
        assert run.vocabulary == (low, high)
        assert run.ranking("q") == (high, low)
        ours = value(run, qrels_of({"q": {low: 1}}), "RR")
        assert ours == trec_eval(dict(hits), {low: 1}, "recip_rank") == 0.5


@pytest.mark.parametrize("seed", range(3))
def test_c20_an_imported_run_with_ties_equals_trec_eval(seed: int, tmp_path: Path) -> None:
    """Mean RR of nearly tie-free data differs in the sixth place between three libraries."""
    rng = np.random.default_rng(seed)
    documents = [f"d{at}" for at in range(60)]
    scores = dict(zip(documents, rng.integers(0, 12, size=60).tolist(), strict=True))
    grades = {d: int(rng.integers(0, 4)) for d in documents[::3]} | {"d0": 1}
    run = imported(tmp_path, [(d, float(s)) for d, s in scores.items()])
    found = score(run, qrels_of({"q": grades}), tuple(TREC), ("q",))
    for name, trec_name in TREC.items():
        theirs = trec_eval({d: float(s) for d, s in scores.items()}, grades, trec_name)
        assert found[name].by_query["q"] == pytest.approx(theirs, abs=1e-12), name


RUNS, PARTS = 200, 4
IDS = ("é", "z", "Z", "9", "10", "\uffee", "\U00010000", "ß", "日本", *(f"d{n}" for n in range(40)))
TREC = {
    "nDCG@10": "ndcg_cut_10", "nDCG": "ndcg", "RR": "recip_rank", "AP": "map",
    "AP@100": "map_cut_100", "P@10": "P_10", "R@50": "recall_50", "Success@5": "success_5",
    "Rprec": "Rprec", "Bpref": "bpref", "NumRet": "num_ret",
}  # fmt: skip
NAMES = (*TREC, "RR@10", "Judged@10")
GeneratedRun = dict[str, dict[str, float]]


def generated(seed: int) -> tuple[GeneratedRun, Qrels]:
    """Scores tie, may be negative; grades may be; queries are missing here, or there, or both.

    Scores are such that float32 holds them: what it cannot tell apart is C4, and not here.
    """
    rng = np.random.default_rng(seed)
    queries = [f"q{at}" for at in rng.permutation(7)] + ["ü1"]
    levels = int(rng.integers(1, 20))
    run: GeneratedRun = {}
    grades: dict[str, dict[str, int]] = {}
    for query in queries:
        if rng.random() < 0.85:
            shown = rng.permutation(len(IDS))[: int(rng.integers(1, len(IDS)))]
            run[query] = {IDS[d]: float(rng.integers(-levels, levels)) / 4 for d in shown}
        if rng.random() < 0.85:
            judged = rng.permutation(len(IDS))[: int(rng.integers(1, 25))]
            grades[query] = {IDS[d]: int(rng.integers(-2, 4)) for d in judged}
    run["q0"] = run.get("q0") or {"d1": 1.0}
    grades["q0"] = grades.get("q0", {}) | {"d1": 1}
    return run, qrels_of(grades)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_equals_pytrec_eval_and_ir_measures(part: int, tmp_path: Path) -> None:
    for seed in range(part, RUNS, PARTS):
        run, qrels = generated(seed)
        file = tmp_path / f"{seed}.trec"
        lines = [f"{q} Q0 {d} 0 {s!r} x\n" for q, docs in run.items() for d, s in docs.items()]
        file.write_text("".join(lines), encoding="utf-8")
        asked = tuple(dict.fromkeys((*run, *qrels.query_ids)))
        read = read_run(file, "x", asked, missing=MissingQuery.EMPTY)
        found = score(read, qrels, NAMES, asked)
        answerable = {query: dict(qrels.grades[query]) for query in qrels.answerable}
        theirs = pytrec_eval.RelevanceEvaluator(answerable, set(TREC.values())).evaluate(run)
        for name, trec in TREC.items():
            for query, values in theirs.items():
                assert found[name].by_query[query] == pytest.approx(values[trec], abs=1e-12)
        ranks = {
            row.query_id: {hit.doc_id: -float(at) for at, hit in enumerate(row.hits)}
            for row in read.rows()
            if row.hits and row.query_id in answerable
        }
        for name in ("RR@10", "Judged@10"):
            measure = ir_measures.parse_measure(name)
            for metric in ir_measures.iter_calc([measure], answerable, ranks):
                value = found[name].by_query[metric.query_id]
                assert value == pytest.approx(metric.value, abs=1e-12)
        for query in set(answerable) - set(run):
            assert all(found[name].by_query[query] == 0 for name in TREC)
