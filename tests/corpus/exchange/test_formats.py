"""What is written in a format is read back from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import DatasetError, UnknownName
from harness.core.records import Document, Qrels, Query
from harness.corpus import beir, trec
from harness.corpus.beir import Beir
from harness.corpus.exchange import RATED, WRITE, Data, reader, writer

DOCUMENTS = (
    Document("d1", "Title", "first\ttext\nof two lines", {"lang": "en"}),
    Document("d2", "", "zweiter ö", {}),
)
QUERIES = (
    Query("q1", "red shoes", ("short",), "shoes"),
    Query("q2", '=SUM(A1;A2), “quoted” "q" 100%'),
    Query("q3", "unjudged"),
)
GRADES = {"q1": {"d1": 3, "d2": 0}, "q2": {"d2": 1}}
DATA = Data("Mine", lambda: iter(DOCUMENTS), QUERIES, Qrels(GRADES))


def by_text(queries: tuple[Query, ...], qrels: Qrels) -> dict[str, dict[str, int]]:
    texts = {query.query_id: query.text for query in queries}
    return {texts[query_id]: dict(grades) for query_id, grades in qrels.grades.items()}


@pytest.mark.parametrize("kind", RATED)
def test_ratings_come_back(tmp_path: Path, kind: str) -> None:
    writer(kind)(tmp_path, DATA)
    (path,) = tmp_path.iterdir()
    found = reader(kind)(path, "")
    assert by_text(found.queries, found.qrels) == by_text(QUERIES, DATA.qrels)
    again = tmp_path / "again"
    again.mkdir()
    writer(kind)(again, Data("Mine", DATA.documents, found.queries, found.qrels))
    (second,) = again.iterdir()
    assert reader(kind)(second, "") == found


def test_beir_comes_back_whole(tmp_path: Path) -> None:
    writer("beir")(tmp_path, DATA)
    read = Beir(tmp_path, "test")
    assert tuple(read.documents()) == DOCUMENTS
    assert read.queries() == QUERIES
    assert read.qrels() == DATA.qrels
    assert '{"_id": "d1"' in (tmp_path / "corpus.jsonl").read_text()


def test_trec_comes_back_without_slices(tmp_path: Path) -> None:
    writer("trec")(tmp_path, DATA)
    assert tuple(beir.documents(tmp_path / "corpus.jsonl")) == DOCUMENTS
    found = trec.table(tmp_path / "topics.tsv")
    assert found == tuple(Query(query.query_id, query.text) for query in QUERIES)
    assert trec.qrels(tmp_path / "qrels.trec") == DATA.qrels


@pytest.mark.parametrize("kind", ["quepid", "opensearch"])
def test_two_queries_of_one_text_are_no_two_in_a_format_without_ids(
    tmp_path: Path, kind: str
) -> None:
    twice = (*QUERIES, Query("q4", "red shoes"))
    judged = Qrels({**GRADES, "q4": {"d1": 1}})
    with pytest.raises(DatasetError, match=r"q1 and q4 have the same text.* use rank-eval"):
        writer(kind)(tmp_path, Data("Mine", DATA.documents, twice, judged))
    assert not [*tmp_path.iterdir()]
    writer(kind)(tmp_path, Data("Mine", DATA.documents, twice, DATA.qrels))


def test_an_unknown_format_is_told_what_there_is() -> None:
    with pytest.raises(UnknownName, match="no format of ratings named 'csv'; there is quepid"):
        reader("csv")
    with pytest.raises(UnknownName, match="no format named 'csv'; there is beir"):
        writer("csv")
    assert {*RATED} < {*WRITE}
