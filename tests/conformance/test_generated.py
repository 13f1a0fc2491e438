"""500 generated runs against pytrec_eval and ir-measures, read from files as TREC wrote them."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from harness.core.records import Qrels
from harness.corpus.trec import Missing, read_run
from harness.measures.quality import score
from tests.make.runs import qrels_of

pytestmark = pytest.mark.slow
RUNS, PARTS = 500, 20
IDS = ("é", "z", "Z", "9", "10", "\uffee", "\U00010000", "ß", "日本", *(f"d{n}" for n in range(40)))
TREC = {
    "nDCG@10": "ndcg_cut_10", "nDCG": "ndcg", "RR": "recip_rank", "AP": "map",
    "AP@100": "map_cut_100", "P@10": "P_10", "R@50": "recall_50", "Success@5": "success_5",
    "Rprec": "Rprec", "Bpref": "bpref", "NumRet": "num_ret",
}  # fmt: skip
NAMES = (*TREC, "RR@10", "Judged@10")
Run = dict[str, dict[str, float]]


def generated(seed: int) -> tuple[Run, Qrels]:
    """Scores tie, may be negative; grades may be; queries are missing here, or there, or both.

    Scores are such that float32 holds them: what it cannot tell apart is C4, and not here.
    """
    rng = np.random.default_rng(seed)
    queries = [f"q{at}" for at in rng.permutation(7)] + ["ü1"]
    levels = int(rng.integers(1, 20))
    run: Run = {}
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


@pytest.mark.parametrize("part", range(PARTS))
def test_equals_pytrec_eval_and_ir_measures(part: int, tmp_path: Path) -> None:
    for seed in range(part, RUNS, PARTS):
        run, qrels = generated(seed)
        file = tmp_path / f"{seed}.trec"
        lines = [f"{q} Q0 {d} 0 {s!r} x\n" for q, docs in run.items() for d, s in docs.items()]
        file.write_text("".join(lines), encoding="utf-8")
        asked = tuple(dict.fromkeys((*run, *qrels.query_ids)))
        read = read_run(file, "x", asked, missing=Missing.EMPTY)
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


def test_what_is_generated_has_what_it_should() -> None:
    """Ties, negative scores and grades, gaps on both sides, ids beyond ASCII."""
    cases = [generated(seed) for seed in range(40)]
    scores = [list(docs.values()) for run, _ in cases for docs in run.values()]
    assert sum(len(set(values)) < len(values) for values in scores) > 40
    assert any(value < 0 for values in scores for value in values)
    assert any(grade < 0 for _, qrels in cases for *_, grade in qrels.rows())
    assert any(set(run) - set(qrels.query_ids) for run, qrels in cases)
    assert any(set(qrels.query_ids) - set(run) for run, qrels in cases)
    assert any(not docs.isascii() for run, _ in cases for row in run.values() for docs in row)
