"""``harness.stats.prediction``: what a machine says of a query's other documents counts too."""

from __future__ import annotations

import numpy as np
import pytest

from harness.stats.prediction import UniqueHits, calibration, expected

ALL = np.ones(8, dtype=bool)


def hits(query: list[int], human: list[float], machine: list[int]) -> UniqueHits:
    weight = np.ones(len(query), dtype=np.float64)
    return UniqueHits(np.array(query), weight, np.array(human), np.array(machine))


def test_a_grade_that_people_never_judged_has_no_share() -> None:
    shown = UniqueHits(
        np.zeros(3, int), np.ones(3), np.array([1.0, 0.0, np.nan]), np.array([0, 0, 1])
    )
    assert calibration(shown, np.array([True, True, False])) == (0.5, None)


def test_documents_of_one_grade_differ_by_what_the_others_of_their_query_are() -> None:
    """A grade of 1 is right in the query of good documents, and wrong in that of bad ones."""
    shown = hits([0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 1, 0, 0, 0], [1, 1, 1, 0, 1, 0, 0, 1])
    found = expected(shown, ALL)
    assert found[0] > found[7] > 0
    by_grade = np.array([4 / 5] * 3 + [0, 4 / 5, 0, 0, 4 / 5])
    squares = [((shown.human - one) ** 2).sum() for one in (found, by_grade)]
    assert squares[0] < squares[1]


def test_where_queries_say_nothing_more_each_grade_counts_as_its_share() -> None:
    shown = hits([0, 1, 2, 3], [1, 0, 1, 0], [1, 1, 0, 0])
    assert expected(shown, ALL[:4]).tolist() == [0.5] * 4


def test_only_judged_documents_teach_and_a_grade_without_any_counts_as_all() -> None:
    shown = hits([0, 1, 2, 3], [1, 0, 1, np.nan], [0, 0, 0, 1])
    judged = ~np.isnan(shown.human)
    assert expected(shown, judged) == pytest.approx(np.array([2 / 3] * 4))
    assert expected(shown, np.zeros(4, dtype=bool)).tolist() == [0.0] * 4
