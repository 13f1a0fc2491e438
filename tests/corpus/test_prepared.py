"""Prepared data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.digest import of_documents, of_queries
from harness.core.errors import BadFile
from harness.core.records import Document, Judgement, Qrels, Query
from harness.corpus import beir, prepared
from harness.corpus.prepared import Prepared

DOCUMENTS = [Document("2", "t", "x", {"b": 1, "a": None}), Document("1", "", "\0\u2028")]
QUERIES = (Query("q", "why", ("a",), "need"), Query("p", "how"))
QRELS = Qrels.of([Judgement("q", "2", 2), Judgement("q", "1", 0)])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    manifest = prepared.write(tmp_path / "data", "toy", "test", iter(DOCUMENTS), QUERIES, QRELS)
    read = Prepared.open(tmp_path / "data")
    assert read.manifest == manifest
    assert list(read.documents()) == DOCUMENTS
    assert (read.queries(), read.qrels()) == (QUERIES, QRELS)


def test_the_manifest_counts_and_digests(tmp_path: Path) -> None:
    found = prepared.write(tmp_path / "data", "toy", "test", DOCUMENTS, QUERIES, QRELS)
    assert (found.documents, found.queries, found.judgements) == (2, 2, 2)
    assert found.corpus_sha256 == of_documents(DOCUMENTS)
    assert found.queries_sha256 == of_queries(QUERIES)
    assert found.slices == {"a": 1}


def test_the_same_data_gives_the_same_bytes(tmp_path: Path) -> None:
    turned = [Document("2", "t", "x", {"a": None, "b": 1}), DOCUMENTS[1]]
    prepared.write(tmp_path / "a", "toy", "test", DOCUMENTS, QUERIES, QRELS)
    prepared.write(tmp_path / "b", "toy", "test", turned, list(QUERIES), QRELS)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [
        "clusters.json",
        "corpus.jsonl",
        "manifest.json",
        "qrels.trec",
        "queries.jsonl",
    ]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("name", ["corpus.jsonl", "manifest.json", "qrels.trec", "queries.jsonl"])
def test_a_missing_file_names_the_hint(tmp_path: Path, name: str) -> None:
    prepared.write(tmp_path / "data", "toy", "test", DOCUMENTS, QUERIES, QRELS)
    (tmp_path / "data" / name).unlink()
    with pytest.raises(BadFile, match=f"{name}: missing file. Run: harness stage prepare"):
        Prepared.open(tmp_path / "data")


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not a manifest"), ('{"name": 3}', "name: Input should be a valid string")],
)
def test_a_bad_manifest_is_named(tmp_path: Path, text: str, says: str) -> None:
    prepared.write(tmp_path / "data", "toy", "test", DOCUMENTS, QUERIES, QRELS)
    (tmp_path / "data" / "manifest.json").write_text(text)
    with pytest.raises(BadFile, match=rf"manifest\.json(:1)?: {says}"):
        Prepared.open(tmp_path / "data")


def test_a_failed_write_leaves_the_old_data(tmp_path: Path) -> None:
    prepared.write(tmp_path / "data", "toy", "test", DOCUMENTS, QUERIES, QRELS)

    def broken() -> list[Document]:
        raise BadFile("corpus", "it broke", "Mend it.")

    with pytest.raises(BadFile):
        prepared.write(tmp_path / "data", "new", "test", (d for d in broken()), QUERIES, QRELS)
    assert Prepared.open(tmp_path / "data").manifest.name == "toy"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_queries_are_parsed_once_and_again_where_their_bytes_are_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, parsed = beir.queries, []

    def counting(path: Path) -> Iterator[Query]:
        parsed.append(path)
        return iter(tuple(real(path)))

    monkeypatch.setattr(beir, "queries", counting)
    asked = (Query("q-of-this-test-alone", "parsed once"), *QUERIES)
    prepared.write(tmp_path / "data", "toy", "test", DOCUMENTS, asked, QRELS)
    assert [Prepared.open(tmp_path / "data").queries() for _ in range(3)] == [asked] * 3
    assert len(parsed) == 1
    prepared.write(tmp_path / "data", "toy", "test", DOCUMENTS, asked[:2], QRELS)
    assert Prepared.open(tmp_path / "data").queries() == asked[:2]
    assert len(parsed) == 2
