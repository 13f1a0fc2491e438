"""FTS5: one file, the same bytes each time, and opened only when it is whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engines.lexical.grammar import FTS5, parse
from engines.stacks.text.fts5 import FILE, Fts5, Settings, written
from harness.check.subject import DOCUMENTS
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from tests.make.damage import overwrite, run_sql

PLAIN = Fts5(Settings(tokenize="unicode61", title_weight=2.0, text_weight=1.0, joined="both"))
PORTER = Fts5(
    Settings(tokenize="porter unicode61", title_weight=2.0, text_weight=1.0, joined="both")
)


@pytest.fixture
def built(index: Path) -> Path:
    PLAIN.build(DOCUMENTS, index)
    return index


def refused(index: Path, why: str) -> None:
    with pytest.raises(IndexNotReady, match=why), PLAIN.open(index):
        pass


def found(engine: Fts5, documents: tuple[Document, ...], text: str, index: Path) -> list[str]:
    engine.build(documents, index)
    with engine.open(index) as searcher:
        return [hit.doc_id for hit in searcher.search(text, 10).hits]


def test_the_same_documents_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    PLAIN.build(DOCUMENTS[::-1], tmp_path / "again")
    assert (tmp_path / "again" / FILE).read_bytes() == (built / FILE).read_bytes()


@pytest.mark.parametrize("table", ["search", "document", "search_docsize", "search_data"])
def test_a_dropped_table_is_not_ready(built: Path, table: str) -> None:
    own = table in {"search", "document"}
    allow = "PRAGMA writable_schema = ON"
    drop = f"DROP TABLE {table}" if own else f"DELETE FROM sqlite_master WHERE name = '{table}'"  # noqa: S608  our own names
    run_sql(built / FILE, allow, drop)
    refused(built, "harness stage index")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM document WHERE id = 1",
        "INSERT INTO search (rowid, title, text) VALUES (99, 'more', 'more')",
        "INSERT INTO search (search) VALUES ('delete-all')",
    ],
)
def test_rows_that_the_manifest_does_not_count_are_not_ready(built: Path, statement: str) -> None:
    run_sql(built / FILE, statement)
    refused(built, f"says {len(DOCUMENTS)} documents, the index holds")


def test_a_file_that_is_gone_is_not_ready(built: Path) -> None:
    (built / FILE).unlink()
    refused(built, FILE)
    assert not (built / FILE).exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9])
def test_a_file_cut_short_is_not_ready(built: Path, share: float) -> None:
    whole = (built / FILE).read_bytes()
    overwrite(built / FILE, whole[: int(share * len(whole))])
    refused(built, FILE)


def test_garbage_is_not_ready(built: Path) -> None:
    overwrite(built / FILE, b"no database" * 1000)
    refused(built, FILE)


def test_a_folder_in_its_place_is_not_ready(built: Path) -> None:
    (built / FILE).unlink()
    (built / FILE).mkdir()
    refused(built, FILE)


def test_a_folder_with_signs_in_its_name_opens(tmp_path: Path) -> None:
    folder = tmp_path / "50% of a?b#c d"
    folder.mkdir()
    assert found(PLAIN, DOCUMENTS, "soprano", folder) == ["opera"]


def test_nothing_can_be_written(built: Path) -> None:
    with PLAIN.open(built) as searcher, pytest.raises(sqlite3.OperationalError, match="readonly"):
        searcher.db.execute("DELETE FROM document")


def test_closed_it_answers_no_more(built: Path) -> None:
    with PLAIN.open(built) as searcher:
        pass
    with pytest.raises(sqlite3.ProgrammingError):
        searcher.search("water", 3)


def test_one_id_twice_is_refused(index: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        PLAIN.build([Document("a", "", "x"), Document("a", "", "y")], index)


def test_a_title_weighs_more_than_the_text(index: Path) -> None:
    documents = (Document("a", "moss", "stone"), Document("b", "stone", "moss"))
    assert found(PLAIN, documents, "stone", index) == ["b", "a"]


def test_only_porter_knows_stems(tmp_path: Path) -> None:
    for name in ("plain", "porter"):
        (tmp_path / name).mkdir()
    documents = (Document("a", "", "mending punctures"),)
    assert found(PLAIN, documents, "mended puncture", tmp_path / "plain") == []
    assert found(PORTER, documents, "mended puncture", tmp_path / "porter") == ["a"]


def test_accents_are_folded(index: Path) -> None:
    assert found(PLAIN, (Document("a", "", "naïve café"),), "cafe", index) == ["a"]


@pytest.mark.parametrize(
    ("text", "joined", "asked"),
    [
        ("salt water", "both", '"salt" OR "water"'),
        ('"salt water"', "words", '"salt water"'),
        ("read_csv", "both", '("read csv" OR "read" OR "csv")'),
        ("read_csv", "words", '("read" OR "csv")'),
        ("read_csv", "phrase", '"read csv"'),
        ("salt -water", "both", '("salt") NOT ("water")'),
        ("+salt +water", "both", '"salt" AND "water"'),
        ("+salt water", "both", '("salt") AND ("salt" OR "water" OR "water")'),
        ("", "both", ""),
    ],
)
def test_what_fts5_is_asked(text: str, joined: str, asked: str) -> None:
    assert FTS5.select(parse(text), lambda one: written(one, joined)).expression == asked


def test_what_must_be_there_counts_no_more_than_what_may(index: Path) -> None:
    documents = tuple(
        Document(f"d{at}", "", text)
        for at, text in enumerate(["salt salt water", "salt water water", "moss", "fern", "stone"])
    )
    PLAIN.build(documents, index)
    with PLAIN.open(index) as searcher:
        plain = searcher.search("salt water", 10).hits
        must = searcher.search("+salt water", 10).hits
    assert [hit.raw_score for hit in must] == pytest.approx([2 * hit.raw_score for hit in plain])
    assert [hit.doc_id for hit in must] == [hit.doc_id for hit in plain]
