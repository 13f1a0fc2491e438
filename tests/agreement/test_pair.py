"""Two runs side by side."""

from __future__ import annotations

import numpy as np
import pytest

from harness.agreement import ABSENT, Pair
from harness.core.errors import HarnessError, MismatchedQueries
from tests.make.runs import run_of

CONTROL = run_of({"p": ["a", "b", "c"], "q": [], "r": ["z"]}, "control")
CANDIDATE = run_of({"r": ["m", "z"], "q": ["a"], "p": ["c", "x", "a"]}, "candidate")


def test_matches_by_query_and_document_whatever_the_order() -> None:
    pair = Pair.of(CONTROL, CANDIDATE)
    assert pair.query_ids == ("p", "q", "r")
    assert pair.control_rows.tolist() == [0, 1, 2]
    assert pair.candidate_rows.tolist() == [2, 1, 0]
    assert pair.control_length.tolist() == [3, 0, 1]
    assert pair.candidate_length.tolist() == [3, 1, 2]
    wanted = [[2, ABSENT, 0], [ABSENT] * 3, [1, ABSENT, ABSENT]]
    assert pair.rank.tolist() == wanted


def test_a_cut_takes_both_lists_to_the_same_depth() -> None:
    pair = Pair.of(CONTROL, CANDIDATE)
    assert pair.shared(3).tolist() == [2, 0, 1]
    assert pair.shared(2).tolist() == [0, 0, 1]
    assert pair.within(1).tolist() == [[ABSENT]] * 3
    assert [lengths.tolist() for lengths in pair.lengths(2)] == [[2, 0, 1], [2, 1, 2]]


@pytest.mark.parametrize("depth", [0, -3])
def test_a_depth_without_a_rank_is_refused(depth: int) -> None:
    with pytest.raises(HarnessError, match="holds no rank"):
        Pair.of(CONTROL, CANDIDATE).within(depth)


def test_other_queries_are_refused() -> None:
    with pytest.raises(MismatchedQueries, match="1 query only on the left, 0 only on the right"):
        Pair.of(CONTROL, run_of({"p": [], "q": []}))
    with pytest.raises(MismatchedQueries, match="0 queries only on the left, 1 only on the right"):
        Pair.of(run_of({"p": [], "q": []}), CONTROL)


def test_runs_that_found_nothing_can_be_paired() -> None:
    pair = Pair.of(run_of({"q": []}), run_of({"q": []}))
    assert pair.rank.shape == (1, 0)
    assert np.array_equal(pair.shared(10), [0])
