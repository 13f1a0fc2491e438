"""Codes of clusters, and what clusters cost."""

from __future__ import annotations

import pytest

from harness.core.scores import Dependence, codes, independent


def test_queries_of_one_cluster_share_a_code() -> None:
    found = codes(["a", "b", "c", "d"], {"a": "x", "c": "x", "elsewhere": "y"})
    assert found is not None
    assert found.tolist() == [0, 1, 0, 2]


def test_where_all_stand_alone_there_are_no_codes() -> None:
    assert codes(["a", "b"], {"a": "x", "z": "x"}) is None


def test_a_query_that_is_named_as_a_cluster_is_another_one() -> None:
    assert codes(["a", "x"], {"a": "x"}) is None


@pytest.mark.parametrize(("ids", "count"), [("abcd", 3), ("bd", 2), ("", 0)])
def test_independent_queries_are_counted(ids: str, count: int) -> None:
    assert independent(list(ids), {"a": "x", "c": "x"}) == count


@pytest.mark.parametrize(("effect", "effective"), [(2.0, 50.0), (1.0, 100.0), (0.5, 100.0)])
def test_queries_are_never_worth_more_than_there_are(effect: float, effective: float) -> None:
    assert Dependence(100, 60, 4, effect).effective == effective
