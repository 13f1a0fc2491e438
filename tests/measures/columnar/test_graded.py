"""Where judged documents stand in rankings."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.records import Qrels
from harness.core.run import Run, Status
from harness.measures import kernels
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, running
from harness.measures.missing_judgements import condense
from tests.make.runs import qrels_of, random_case, run_of


def triples(graded: Graded) -> set[tuple[str, int, int]]:
    ids = graded.qrels.query_ids
    columns = (graded.row.tolist(), graded.rank.tolist(), graded.grade.tolist())
    return {(ids[row], rank, grade) for row, rank, grade in zip(*columns, strict=True)}


def by_hand(run: Run, qrels: Qrels) -> set[tuple[str, int, int]]:
    return {
        (q, rank, qrels.grades[q][doc])
        for q in run.query_ids
        if q in qrels.grades
        for rank, doc in enumerate(run.ranking(q))
        if doc in qrels.grades[q]
    }


@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_judged_hits_stand_at_their_ranks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "BLOCK", block)
    run, qrels = random_case(4)
    fewer = Qrels({q: docs for q, docs in qrels.grades.items() if q not in {"q3", "q17"}})
    found = Graded.of(run, EncodedQrels.of(fewer))
    assert triples(found) == by_hand(run, fewer)
    lengths = dict(zip(found.qrels.query_ids, found.lengths.tolist(), strict=True))
    assert lengths == {q: len(run.ranking(q)) for q in fewer.query_ids}


def test_who_was_not_answered_or_not_asked_shows_nothing() -> None:
    run = run_of({"broke": ["a"], "good": ["x", "a"]}, ended={"broke": Status.FAILED})
    qrels = qrels_of({q: {"a": 2} for q in ("absent", "broke", "good")})
    found = Graded.of(run, EncodedQrels.of(qrels))
    assert triples(found) == {("good", 1, 2)}
    assert found.lengths.tolist() == [0, 0, 2]


def test_one_vocabulary_needs_no_translation() -> None:
    qrels = EncodedQrels.of(qrels_of({"q": {"a": 1, "b": 2}}))
    code = qrels.translation(("b", "x", "a"))
    docs = np.where(code < 0, 7, code).astype(np.int32)
    found = Graded.of_rows(qrels, np.array([0]), np.array([0, 3]), docs)
    assert triples(found) == {("q", 0, 2), ("q", 2, 1)}


@pytest.mark.parametrize("seed", range(3))
def test_condensed_is_the_condensed_run(seed: int) -> None:
    run, qrels = random_case(seed)
    coded = EncodedQrels.of(qrels)
    short = Graded.of(run, coded).condensed()
    assert triples(short) == by_hand(condense(run, qrels), qrels)
    positive = Graded.of(run, coded).condensed(lowest=0)
    assert positive.grade.min() == 0
    assert positive.lengths.sum() == len(positive.rank) < len(short.rank)


def test_running_counts_within_a_row() -> None:
    assert running(np.array([4, 4, 1, 1, 1, 9])).tolist() == [0, 1, 0, 1, 2, 0]
    assert running(np.empty(0, dtype=np.int64)).tolist() == []
