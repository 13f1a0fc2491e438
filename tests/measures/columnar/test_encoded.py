"""Judgements as columns."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import DatasetError
from harness.core.records import Qrels
from harness.measures.columns import UNKNOWN, EncodedQrels
from tests.make.runs import qrels_of, random_case

JUDGED = {"q": {"a": 0, "b": 3, "c": -1}, "p": {"b": 1, "d": 2}}


def test_columns_are_by_query_with_the_best_grade_first() -> None:
    coded = EncodedQrels.of(qrels_of(JUDGED))
    found = [
        (coded.query_ids[row], coded.vocabulary[doc], grade, place)
        for row, doc, grade, place in zip(
            coded.rows.tolist(),
            coded.docs.tolist(),
            coded.grades.tolist(),
            coded.place.tolist(),
            strict=True,
        )
    ]
    assert found == [
        ("p", "d", 2, 0), ("p", "b", 1, 1),
        ("q", "b", 3, 0), ("q", "a", 0, 1), ("q", "c", -1, 2),
    ]  # fmt: skip
    assert len(coded) == 2
    assert coded.relevant(1).tolist() == [2, 1]
    assert coded.relevant(0).tolist() == [2, 2]


def test_every_judgement_is_kept() -> None:
    _, qrels = random_case(3)
    coded = EncodedQrels.of(qrels)
    rows = zip(coded.rows.tolist(), coded.docs.tolist(), coded.grades.tolist(), strict=True)
    kept = {(coded.query_ids[row], coded.vocabulary[doc], grade) for row, doc, grade in rows}
    assert kept == {tuple(judgement) for judgement in qrels.rows()}


def test_another_vocabulary_is_translated() -> None:
    coded = EncodedQrels.of(qrels_of(JUDGED))
    ours = coded.translation(("x", "b", "c"))
    assert ours[0] == UNKNOWN
    assert [coded.vocabulary[code] for code in ours[1:]] == ["b", "c"]


def test_a_pair_that_comes_twice_is_refused() -> None:
    ones = np.ones(2, dtype=np.int32)
    with pytest.raises(DatasetError, match="b is judged twice for query p"):
        EncodedQrels.of_columns(("q", "p"), ("a", "b"), np.array([1, 1]), ones, ones)


def test_no_judgement_is_no_query() -> None:
    assert len(EncodedQrels.of(Qrels.of(()))) == 0


def test_judgements_are_coded_once_and_other_ones_anew() -> None:
    qrels, same = qrels_of(JUDGED), qrels_of(JUDGED)
    first = EncodedQrels.of(qrels)
    assert EncodedQrels.of(qrels) is first
    assert EncodedQrels.of(same) is not first
    other = EncodedQrels.of(qrels_of({"q": {"a": 1}}))
    assert (other.query_ids, other.grades.tolist()) == (("q",), [1])
    assert EncodedQrels.of(qrels).query_ids == first.query_ids
