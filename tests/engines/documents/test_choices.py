"""The tables that judge the specification's choices: what is compared, and what is said of it."""

from __future__ import annotations

import pytest

from benchmarks import documents_choices as choices
from benchmarks import documents_chunks as cuts
from benchmarks.documents_choices import Choice
from benchmarks.lexical_weights import Collection
from harness.core.qrels import Qrels
from harness.core.records import Document, Judgement, Query

FIRST, SECOND = Choice("first", "a", "b"), Choice("second", "a", "c")
FILLER = "Nothing of note is said in this sentence. " * 60


def test_a_row_has_the_queries_of_both_and_its_difference_points_the_specifications_way() -> None:
    ours = {f"q{n}": 0.9 for n in range(12)} | {"alone": 1.0}
    theirs = {f"q{n}": 0.4 + n / 100 for n in range(12)}
    row = choices.compared("some", FIRST, ours, theirs)
    assert row.means == pytest.approx((0.9, 0.455))
    assert row.difference.value == pytest.approx(0.445)
    assert row.moved == (12, 0)
    assert row.p_value < 0.01


def test_the_table_keeps_choices_together_and_adjusts_over_all_rows() -> None:
    better = {f"q{n}": 0.9 - n / 100 for n in range(12)}
    worse = {f"q{n}": 0.4 for n in range(12)}
    found = [
        choices.compared("one", FIRST, better, worse),
        choices.compared("one", SECOND, worse, better),
        choices.compared("two", FIRST, worse, worse),
    ]
    rows = list(choices.table(found))[2:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| first", "one"],
        ["| first", "two"],
        ["| second", "one"],
    ]
    assert [row.split(" | ")[-1] for row in rows] == [
        "supported |",
        "inconclusive |",
        "**contradicted** |",
    ]


def test_every_way_to_cut_is_another_index_and_is_asked_the_same() -> None:
    words = ("hive honey bees", "tides moon water", "bread flour salt")
    documents = tuple(Document(f"d{n}", "", FILLER + text) for n, text in enumerate(words))
    queries = tuple(Query(f"q{n}", text) for n, text in enumerate(words))
    qrels = Qrels.of(Judgement(f"q{n}", f"d{n}", 1) for n in range(len(words)))
    made = Collection("made", lambda: iter(documents), queries, qrels)
    found = cuts.rows(made)
    assert [row.choice.what for row in found] == list(cuts.OTHERS)
    assert all(row.means == (1.0, 1.0) for row in found)
    assert len({cuts.SPECIFIED, *cuts.OTHERS.values()}) == len(cuts.OTHERS) + 1
