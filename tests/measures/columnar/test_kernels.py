"""Kernels against ir-measures."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.run import Status
from harness.corpus import trec
from harness.measures import kernels
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, MeasureSpec
from harness.measures.name import parse
from harness.measures.quality import oracle, score
from tests.make.runs import qrels_of, random_case, run_of

pytestmark = pytest.mark.slow
CUT = (
    "P", "P(rel=3)", "P(judged_only=True)", "R", "R(rel=2)", "R(judged_only=True)", "Success",
    "Success(rel=2)", "Success(judged_only=True)",
)  # fmt: skip
EITHER = (
    "nDCG", "nDCG(dcg='exp-log2')", "nDCG(gains={1: 9, 2: 3, 3: -1})", "nDCG(judged_only=True)",
    "RR", "RR(rel=2)", "AP", "AP(rel=2)", "AP(judged_only=True)", "Judged",
)  # fmt: skip
WHOLE = (
    "Rprec", "Rprec(rel=2)", "Rprec(judged_only=True)", "Bpref", "Bpref(rel=2)", "NumRet",
    "NumRet(rel=2)", "RR(judged_only=True)",
)  # fmt: skip
CUTOFFS = (1, 3, 10, 100)
NAMES = (*(f"{name}@{k}" for name, k in product((*CUT, *EITHER), CUTOFFS)), *EITHER, *WHOLE)

REAL = ("adi", "cacm", "cosqa", "cranfield", "r-mailing-lists", "scifact", "ubuntu-irc", "vaswani")


def test_there_is_a_kernel_for_each() -> None:
    assert [name for name in NAMES if MeasureSpec.of(parse(name)) is None] == []


@pytest.mark.parametrize("name", ["ERR@10", "SetP", "IPrec@0.5", "infAP", "NumRel"])
def test_others_go_to_ir_measures(name: str) -> None:
    assert MeasureSpec.of(parse(name)) is None


@pytest.mark.parametrize("lowest", [0, -1, -3])
def test_equals_ir_measures_to_the_last_bit(lowest: int) -> None:
    """Sums run down the ranks as in trec_eval; 1e-12 would do, and this catches more."""
    for seed in range(3):
        run, qrels = random_case(seed, lowest=lowest)
        ours = score(run, qrels, NAMES, run.query_ids)
        theirs = oracle(run, qrels, NAMES, run.query_ids)
        for name in NAMES:
            assert ours[name].by_query == theirs[name].by_query, name
            assert ours[name].undefined == theirs[name].undefined, name


def test_equals_ir_measures_where_queries_are_missing_fail_or_are_negative() -> None:
    run = run_of(
        {"good": ["a", "x", "b"], "empty": [], "broke": ["a"], "negative": ["a"], "free": ["a"]},
        ended={"broke": Status.FAILED},
    )
    grades = {"a": 2, "b": 1}
    judged = dict.fromkeys(("good", "empty", "broke", "absent"), grades) | {"negative": {"a": 0}}
    asked = (*run.query_ids, "absent")
    ours = score(run, qrels_of(judged), NAMES, asked)
    theirs = oracle(run, qrels_of(judged), NAMES, asked)
    for name in NAMES:
        assert ours[name].by_query == theirs[name].by_query, name
        assert ours[name].undefined == theirs[name].undefined, name


@pytest.mark.parametrize("name", REAL)
def test_equals_ir_measures_on_real_judgements(name: str, datasets: Path, tmp_path: Path) -> None:
    lines = min((datasets / name).glob("qrels/*.tsv")).read_text().splitlines()[1:]
    (tmp_path / "qrels").write_text("".join("{} 0 {} {}\n".format(*x.split("\t")) for x in lines))
    qrels = trec.qrels(tmp_path / "qrels")
    rng = np.random.default_rng(7)
    documents = sorted({doc for docs in qrels.grades.values() for doc in docs})
    shown = {
        q: list(dict.fromkeys([*list(docs)[::2], *rng.permutation(documents)[:40].tolist()]))
        for q, docs in qrels.grades.items()
    }
    run = run_of({q: rng.permutation(docs).tolist() for q, docs in shown.items()})
    ours, theirs = (f(run, qrels, NAMES, qrels.query_ids) for f in (score, oracle))
    assert 0 < (ours["nDCG@10"].mean or 0) < 1
    for measure in NAMES:
        assert ours[measure].by_query == theirs[measure].by_query, measure


@settings(deadline=None, max_examples=60)
@given(
    grades=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-2, 4), min_size=1),
    shown=st.permutations("abcdefghxyz"),
    length=st.integers(1, 11),
)
def test_values_are_shares(grades: dict[str, int], shown: list[str], length: int) -> None:
    graded = Graded.of(run_of({"q": shown[:length]}), EncodedQrels.of(qrels_of({"q": grades})))
    for name in NAMES:
        asked = MeasureSpec.of(parse(name))
        if asked is not None and asked.name != "NumRet" and "-1" not in name:
            assert 0 <= kernels.evaluate(graded, asked)[0] <= 1 + 1e-12, name
