"""``harness import``: each kind of collection becomes the same data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.corpus import beir, card, prepared, trec
from tests.cli.conftest import Harness
from tests.make.toy import Toy


@pytest.fixture
def kinds(project: Toy) -> dict[str, tuple[str | Path, ...]]:
    """Write the collection of the toy in every kind, and give the words to import each."""
    folder = project.root / "beir"
    read = beir.Beir(folder, "test")
    trec.write_qrels(folder / "test.qrels", read.qrels())
    topics = "".join(f"{query.query_id}\t{query.text}\n" for query in read.queries())
    (folder / "topics.tsv").write_text(topics)
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    return {
        "beir": (folder,),
        "trec": (folder / "topics.tsv", folder / "test.qrels", corpus),
        "jsonl": (corpus, queries, folder / "test.qrels"),
    }


@pytest.mark.parametrize("kind", ["beir", "trec", "jsonl"])
def test_a_collection_is_imported_and_prepared(
    project: Toy, harness: Harness, kinds: dict[str, tuple[str | Path, ...]], kind: str
) -> None:
    words = ("import", kind, *kinds[kind], "--name", "other", "--licence", "CC0-1.0")
    said = harness(*words, "--source", "a test")
    assert said.code == 0, said.err
    assert "imported other (test): 60 documents, 41 queries, 2401 judgements" in said.out
    assert "harness run --dataset other" in said.out
    assert harness("stage", "prepare", "--dataset", "other").code == 0
    own, first = (card.read(project.root / "datasets" / name) for name in ("other", "toy"))
    assert (own.licence, own.source) == ("CC0-1.0", "a test")
    assert own.sha256.corpus == first.sha256.corpus
    assert own.sha256.qrels == first.sha256.qrels


def test_an_import_of_the_text_alone_says_so(project: Toy, harness: Harness) -> None:
    words = ("import", "beir", "beir", "--name", "bare", "--fields", "text", "--forms")
    assert harness(*words).code == 0
    about = card.read(project.root / "datasets" / "bare")
    assert about.fields == ["text"]
    assert about.slices["form-natural-language"] > 30
    assert harness("stage", "prepare", "--dataset", "bare").code == 0
    data = prepared.Prepared.open(project.root / "build" / "bare" / "data")
    assert data.manifest.fields == ("text",)
    assert {document.title for document in data.documents()} == {""}
    assert card.read(project.root / "datasets" / "toy").fields is None


def test_a_name_that_is_taken_is_kept(project: Toy, harness: Harness) -> None:
    words = ("import", "beir", "beir", "--name", "toy")
    assert "toy exists; choose another name" in harness(*words).error
    assert harness(*words, "--force", "--title", "Again").code == 0
    assert card.read(project.root / "datasets" / "toy").title == "Again"
