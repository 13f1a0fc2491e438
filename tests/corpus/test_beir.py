"""Folders as BEIR lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, UnknownName
from harness.corpus import beir
from tests.corpus.conftest import Written


def test_judgements_with_and_without_a_heading_are_the_same(written: Written) -> None:
    rows = "q\td\t1\nq\te\t0\n"
    plain = beir.qrels(written(rows))
    assert beir.qrels(written("query-id\tcorpus-id\tscore\n" + rows)) == plain
    assert plain.grades == {"q": {"d": 1, "e": 0}}


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("corpus-id\tquery-id\tscore", "d\tq\t{}"),
        ("Score\tQuery ID\tCorpus ID", "{}\tq\td"),
        ("query-id\titer\tcorpus-id\tscore", "q\t0\td\t{}"),
        ("qid\tdocno\tlabel\tannotator", "q\td\t{}\tme"),
        ("some\tother\tgrade", "q\td\t{}"),
    ],
)
@pytest.mark.parametrize("grade", ["2", "2.0", "+2", "2.000"])
def test_columns_go_by_their_names_where_there_is_a_head(
    written: Written, head: str, row: str, grade: str
) -> None:
    assert beir.qrels(written(f"{head}\n{row.format(grade)}\n")).grades == {"q": {"d": 2}}


@pytest.mark.parametrize("line", ["q\t0\td", "q\t0\td\t1\tmore"])
def test_a_row_that_does_not_fit_its_head_is_told(written: Written, line: str) -> None:
    head = "query-id\titer\tcorpus-id\tscore\n"
    with pytest.raises(BadFile, match=r"file:2: the line has [35] columns, not 4"):
        beir.qrels(written(f"{head}{line}\n"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q\td", "the line has 2 columns, not 3. Write: query<TAB>document<TAB>grade"),
        ("q 0 d 1", "the line has 1 columns, not 3"),
        ("q\te\t1.5", "the grade '1.5' is not an integer"),
        ("q\te\tscore", "the grade 'score' is not an integer"),
        ("q\td\t2", "d is judged for query q on line 1 already"),
        ("q\td e\t2", "the document id 'd e' is empty or holds white space"),
        ("\te\t2", "the query id '' is empty"),
    ],
)
def test_a_bad_judgement_is_told_with_its_line(written: Written, line: str, says: str) -> None:
    with pytest.raises(BadFile, match=f"file:2: {says}"):
        beir.qrels(written(f"q\td\t1\n{line}\n"))


def test_adi_has_the_counts_that_its_source_states(adi: Path) -> None:
    read = beir.Beir(adi, "test")
    documents, qrels = list(read.documents()), read.qrels()
    assert (len(documents), len(read.queries())) == (82, 35)
    assert sum(1 for _ in qrels.rows()) == 170
    assert qrels.answerable == qrels.query_ids


def test_packed_cranfield_keeps_its_metadata_and_two_empty_documents(adi: Path) -> None:
    read = beir.Beir(adi.parent / "cranfield", "test")
    documents = {document.doc_id: document for document in read.documents()}
    assert len(documents) == 1400
    assert {i for i, d in documents.items() if not d.text} == {"471", "995"}
    assert sum(1 for _ in read.qrels().rows()) == 1837


@pytest.mark.parametrize(
    ("given", "kept"),
    [("text", ("text",)), (" text,title", ("title", "text")), ("title,title", ("title",))],
)
def test_fields_are_read_in_one_order(given: str, kept: tuple[str, ...]) -> None:
    assert beir.fields(given) == kept


@pytest.mark.parametrize("given", ["", "text,", "body"])
def test_a_field_that_does_not_exist_is_named(given: str) -> None:
    with pytest.raises(UnknownName, match="no field of a document named"):
        beir.fields(given)


def test_only_the_fields_asked_for_are_there(adi: Path) -> None:
    both, text, title = (
        list(beir.Beir(adi, "test", fields).documents())
        for fields in (("title", "text"), ("text",), ("title",))
    )
    assert [(d.title, d.text) for d in text] == [("", d.text) for d in both]
    assert [(d.title, d.text) for d in title] == [(d.title, "") for d in both]
    assert all(d.title and d.text for d in both)


def test_a_missing_split_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"test\.tsv: unknown split 'test'\. Check the folder"):
        beir.Beir(tmp_path, "test").qrels()
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "dev.tsv").touch()
    with pytest.raises(BadFile, match="Choose one of: dev"):
        beir.Beir(tmp_path, "test").qrels()
