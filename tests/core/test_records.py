"""Queries with parameters beside their text."""

from __future__ import annotations

from harness.core.digest import of_json, of_queries
from harness.core.records import Query


def test_a_query_without_params_has_the_digest_it_had_before_there_were_any() -> None:
    queries = [Query("q", "why", ("a", "b"), "need"), Query("p", "how")]
    before = of_json([["q", "why", ["a", "b"], "need"], ["p", "how", [], None]])
    assert of_queries(queries) == before
    assert of_queries([Query("p", "how", params={})]) == of_queries([Query("p", "how")])


def test_params_are_part_of_the_question() -> None:
    plain, high = Query("q", "why"), Query("q", "why", params={"importance": "high"})
    low = Query("q", "why", params={"importance": "low"})
    digests = {of_queries([query]) for query in (plain, high, low)}
    assert len(digests) == 3
    assert len({plain, high, low}) == 3


def test_the_order_of_params_says_nothing() -> None:
    one, other = {"a": 1, "b": None}, {"b": None, "a": 1}
    left, right = Query("q", "why", params=one), Query("q", "why", params=other)
    assert left == right
    assert hash(left) == hash(right)
    assert of_queries([left]) == of_queries([right])
