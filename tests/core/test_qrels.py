"""Judgements in rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import DatasetError
from harness.core.records import Judgement, Qrels


def test_queries_and_documents_are_in_byte_order() -> None:
    qrels = Qrels.of(Judgement(q, d, 1) for q in ("é", "z", "10", "9") for d in ("b", "a"))
    assert qrels.query_ids == ("10", "9", "z", "é")
    assert list(qrels.grades["9"]) == ["a", "b"]


def test_a_query_of_grades_of_zero_and_below_is_negative() -> None:
    qrels = Qrels.of([
        Judgement("a", "d", 0),
        Judgement("a", "e", 2),
        Judgement("b", "d", 0),
        Judgement("c", "d", -1),
    ])
    assert qrels.answerable == ("a",)
    assert qrels.negative == ("b", "c")


def test_a_document_judged_twice_is_refused_even_if_both_agree() -> None:
    with pytest.raises(DatasetError, match="d is judged twice for query q"):
        Qrels.of([Judgement("q", "d", 1), Judgement("q", "d", 1)])


@pytest.mark.parametrize("grade", [0.5, 1.0, "1", None, True])
def test_a_grade_is_an_integer(grade: Any) -> None:  # noqa: ANN401  what is not one
    with pytest.raises(DatasetError, match="not an integer"):
        Qrels.of([Judgement("q", "d", grade)])


def test_no_judgement_is_no_query() -> None:
    empty = Qrels.of([])
    assert (empty.query_ids, empty.answerable, empty.negative) == ((), (), ())


@given(st.dictionaries(st.tuples(st.text(max_size=3), st.text(max_size=3)), st.integers(-2, 4)))
def test_rows_go_in_and_out(grades: dict[tuple[str, str], int]) -> None:
    rows = [Judgement(q, d, grade) for (q, d), grade in grades.items()]
    qrels = Qrels.of(rows)
    assert sorted(qrels.rows()) == sorted(rows)
    assert list(qrels.rows()) == list(Qrels.of(rows[::-1]).rows())
    assert set(qrels.answerable) | set(qrels.negative) == set(qrels.query_ids)
    assert not set(qrels.answerable) & set(qrels.negative)
