"""Runs keep what was shown, and refuse what cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.errors import RunError
from harness.core.run import Row, Run, Status
from tests.make.rows import rows

FEW = [
    Row("q1", Status.ANSWERED, (Hit("b", 1.0, 9.0), Hit("a", 0.5, 4.5)), "me"),
    Row("q2", Status.ANSWERED, (), "me"),
    Row("q3", Status.FAILED, error="ValueError: no"),
    Row("q4", Status.TIMED_OUT, error="late"),
    Row("q5", Status.NOT_ASKED),
]


def test_compressed_rows() -> None:
    run = Run.of("arm", FEW)
    assert run.vocabulary == ("a", "b")
    assert run.offsets.tolist() == [0, 2, 2, 2, 2, 2]
    assert run.docs.tolist() == [1, 0]
    assert run.score.tolist() == [1.0, 0.5]
    assert run.raw_score.tolist() == [9.0, 4.5]
    assert run.lengths.tolist() == [2, 0, 0, 0, 0]
    assert len(run) == 5


def test_four_ends_are_four_things() -> None:
    run = Run.of("arm", FEW)
    assert [run.count(status) for status in Status] == [2, 1, 1, 1]
    assert [row.status for row in run.rows()] == [row.status for row in FEW]


def test_views_of_one_query() -> None:
    run = Run.of("arm", FEW)
    assert run.ranking("q1") == ("b", "a")
    assert run.ranking("q1", 1) == ("b",)
    assert run.ranking("q1", 9) == ("b", "a")
    assert run.ranking("q2") == ()
    assert run.hits("q1", 1) == (Hit("b", 1.0, 9.0),)
    with pytest.raises(KeyError):
        run.ranking("q9")


@given(rows())
def test_rankings_of_many_are_those_of_each(given_rows: Sequence[Row]) -> None:
    run = Run.of("arm", given_rows)
    for k in (None, 0, 1, 3):
        assert run.rankings(run.query_ids, k) == {q: run.ranking(q, k) for q in run.query_ids}
    with pytest.raises(KeyError):
        run.rankings(["nobody asked this"])


def test_a_second_showing_is_taken_out_and_counted() -> None:
    hits = [Hit("a", 1.0, 1.0), Hit("b", 0.9, 0.9), Hit("a", 0.8, 0.8), Hit("a", 0.7, 0.7)]
    run = Run.of("arm", [Row("q", Status.ANSWERED, hits, "me", duplicates=3)])
    assert run.ranking("q") == ("a", "b")
    assert run.hits("q")[0].score == 1.0
    assert run.duplicates.tolist() == [5]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["score", "raw_score"])
def test_a_score_that_is_no_number_is_refused(score: float, place: str) -> None:
    hit = Hit("a", score, 0.5) if place == "score" else Hit("a", 0.5, score)
    with pytest.raises(RunError, match="query q: the score of a"):
        Run.of("arm", [Row("q", Status.ANSWERED, (Hit("b", 1.0, 1.0), hit))])


def test_also_in_a_second_showing() -> None:
    hits = (Hit("a", 1.0, 1.0), Hit("a", float("nan"), 1.0))
    with pytest.raises(RunError):
        Run.of("arm", [Row("q", Status.ANSWERED, hits)])


def test_a_query_twice_is_refused() -> None:
    with pytest.raises(RunError, match="query q1 is in the run twice"):
        Run.of("arm", [*FEW, FEW[0]])


def test_a_run_of_no_queries() -> None:
    run = Run.of("arm", [])
    assert (len(run), run.offsets.tolist(), list(run.rows())) == (0, [0], [])


def test_ids_are_in_byte_order() -> None:
    ids = ["é", "z", "9", "10", "\U0001f600", "\uffee", "Z"]
    run = Run.of("arm", [Row("q", Status.ANSWERED, [Hit(d, 1.0, 1.0) for d in ids])])
    assert run.vocabulary == tuple(sorted(ids, key=str.encode))
    assert run.ranking("q") == tuple(ids)


@given(rows())
def test_rows_go_in_and_out(given_rows: Sequence[Row]) -> None:
    run = Run.of("arm", given_rows)
    out = list(run.rows())
    assert [row.query_id for row in out] == [row.query_id for row in given_rows]
    for before, after in zip(given_rows, out, strict=True):
        shown = list(dict.fromkeys(hit.doc_id for hit in before.hits))
        assert [hit.doc_id for hit in after.hits] == shown
        assert set(after.hits) <= set(before.hits)
        repeated = len(before.hits) - len(shown)
        assert after.duplicates == before.duplicates + repeated
        assert after[3:5] == before[3:5]
        assert run.ranking(before.query_id) == tuple(shown)
    again = Run.of("arm", out)
    assert list(again.rows()) == out


@given(rows())
def test_the_vocabulary_is_sorted_and_used(given_rows: Sequence[Row]) -> None:
    run = Run.of("arm", given_rows)
    assert list(run.vocabulary) == sorted(set(run.vocabulary))
    assert np.array_equal(np.unique(run.docs), np.arange(len(run.vocabulary)))
    assert len(run.docs) == run.offsets[-1] == run.lengths.sum()


@given(st.integers(0, 5))
def test_status_has_no_truth_of_its_own(code: int) -> None:
    known = code in set(Status)
    assert known is (code < 4)
