"""Ids that are made of texts, and grades as tools write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.corpus.exchange import Collector, id_of, rows_of
from harness.corpus.trec import UNCARRIED


@given(st.lists(st.text(min_size=1), unique=True))
@example(["a b", "a%20b", "a%2520b"])
def test_other_texts_have_other_ids_that_a_line_can_carry(texts: list[str]) -> None:
    ids = [id_of(text) for text in texts]
    assert len({*ids}) == len(texts)
    assert not any(one in UNCARRIED for found in ids for one in found)


@pytest.mark.parametrize(
    ("grade", "means"), [(2, 2), ("2", 2), ("2.000", 2), (2.0, 2), ("-1", -1), (" 3 ", 3)]
)
def test_a_whole_number_is_a_grade(grade: object, means: int) -> None:
    collector = Collector(Path("f"))
    collector.add_grade(collector.add_query("a b", 1), "d", grade, 1)
    assert collector.done().qrels.grades == {"a%20b": {"d": means}}


@pytest.mark.parametrize("grade", ["2.5", "good", "1e3", True, [1], "٣", "1_0", float("nan")])
def test_anything_else_is_none(grade: object) -> None:
    collector = Collector(Path("f"))
    with pytest.raises(BadFile, match=r"f:7: the grade .* is not an integer\. Map the scale"):
        collector.add_grade(collector.add_query("a", 7), "d", grade, 7)


def test_a_pair_without_a_grade_is_counted_and_a_query_without_pairs_kept() -> None:
    collector = Collector(Path("f"))
    query_id = collector.add_query("a", "x[0]")
    collector.add_query("b", "x[1]")
    collector.add_grade(query_id, "d", None, "x[0]")
    collector.add_grade(query_id, "e", 1, "x[0]")
    found = collector.done()
    assert found.unrated == 1
    assert [query.text for query in found.queries] == ["a", "b"]
    assert [query.text for query, _ in rows_of(found.qrels, found.queries)] == ["a"]


def test_what_is_wrong_is_named_with_its_place() -> None:
    collector = Collector(Path("f"))
    query_id = collector.add_query("a", "x[0]", "q 1")
    assert query_id == "q%201"
    with pytest.raises(BadFile, match=r"f: x\[1\]: the query 'q%201' has another text already"):
        collector.add_query("b", "x[1]", "q 1")
    with pytest.raises(BadFile, match=r"f: x\[2\]: the query has no text"):
        collector.add_query(" ", "x[2]")
    collector.add_grade(query_id, "d", 1, "x[0].ratings[0]")
    with pytest.raises(BadFile, match=r"d is rated for query 'q%201' at x\[0\]\.ratings\[0\] alr"):
        collector.add_grade(query_id, "d", 2, "x[0].ratings[1]")
    with pytest.raises(BadFile, match="the document id 'd e' is empty or holds white space"):
        collector.add_grade(query_id, "d e", 1, "x[0].ratings[2]")
    with pytest.raises(BadFile, match="f: it holds no rating"):
        Collector(Path("f")).done()
