"""Ids that tools write otherwise, and queries that are themselves documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.engine import Hit
from harness.core.errors import BadFile
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Conditions, Row, Run, Status
from harness.corpus import prepared
from harness.corpus.cells import (
    FILE,
    Ids,
    OwnDocuments,
    OwnWatch,
    examples,
    normal,
    read,
    without_own,
    write,
)
from harness.corpus.prepared import Prepared

DOCUMENTS = [
    Document("same", "", "Ban  zoos now"),
    Document("titled", "Ban zoos", "now"),
    Document("1", "", "a wing in a slipstream"),
    Document("other", "", "x"),
]
QUERIES = (
    Query("same", "ban zoos now"),
    Query("titled", "Ban zoos now"),
    Query("1", "what laws hold"),
    Query("q", "x"),
)


@pytest.mark.parametrize("one", ["12", "0012", "12.0", "00012.00", " 12", "\uff11\uff12"])
def test_a_number_has_one_form(one: str) -> None:
    assert normal(one) == "12"


@pytest.mark.parametrize(("one", "other"), [("Q07", "q7"), ("doc-001", "doc-1"), ("MED-0", "med-")])
def test_zeros_before_the_last_number_do_not_count(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(("one", "other"), [("12", "120"), ("1.5", "1"), ("a1b", "a01b")])
def test_other_ids_have_other_forms(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_what_may_be_meant_is_named_first() -> None:
    assert examples({"aa", "b", "c", "0171"}, ["171"]) == "0171 (perhaps 171), aa, b"


@pytest.mark.parametrize(
    ("rule", "own"),
    [(None, {"same", "titled"}), ("drop", {"same", "titled", "1"}), ("keep", set())],
)
def test_the_hit_goes_where_texts_are_equal_or_the_card_says(
    tmp_path: Path, rule: OwnDocuments | None, own: set[str]
) -> None:
    judged = Qrels.of([Judgement("q", "other", 1)])
    prepared.write(tmp_path / "d", "d", "test", DOCUMENTS, QUERIES, judged, own=rule)
    assert Prepared.open(tmp_path / "d").ids() == Ids(frozenset(own), frozenset())
    assert (tmp_path / "d" / FILE).exists() == bool(own)


def test_what_was_found_is_said() -> None:
    watch = OwnWatch(QUERIES)
    assert list(watch.watch(DOCUMENTS)) == DOCUMENTS
    same, strangers = watch.said
    assert same.startswith("2 queries are also in the corpus: a hit of the query's own id is left")
    assert strangers.startswith("1 query has the id of a document with another text: 1.")
    assert OwnWatch(QUERIES, "keep").said == ()


def test_only_the_own_hit_is_taken_out_and_the_rest_stays() -> None:
    hits = [Hit("a", 1.0, 3.0), Hit("b", 0.5, 2.0), Hit("c", 0.0, 1.0)]
    rows = [Row(name, Status.ANSWERED, hits) for name in ("a", "b", "z")]
    run = Run.of("x", [*rows, Row("lost", Status.NOT_ASKED)])
    object.__setattr__(run, "conditions", Conditions(100, 1.0))
    shown = without_own(run, {"a", "lost"})
    assert [shown.ranking(q) for q in shown.query_ids] == [
        ("b", "c"),
        ("a", "b", "c"),
        ("a", "b", "c"),
        (),
    ]
    assert shown.conditions == run.conditions
    assert shown.hits("a")[0].raw_score == 2.0
    assert shown.status.tolist() == run.status.tolist()
    assert without_own(run, frozenset()) is run


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, Ids(frozenset("a"), frozenset("b")))
    assert read(tmp_path) == Ids(frozenset("a"), frozenset("b"))
    (tmp_path / FILE).write_text('{"own": []}')
    with pytest.raises(BadFile, match=r"ids\.json: elsewhere: Field required"):
        read(tmp_path)
