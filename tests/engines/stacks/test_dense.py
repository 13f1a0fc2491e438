"""The dense stack: what it reads, keeps and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from engines.stacks.text import dense
from engines.stacks.text.dense import Dense, DenseSearcher, Settings
from engines.vector.amvi import IDS, VECTORS
from engines.vector.embedder import HashEmbedder, embedder_of, identity_of_embedder
from harness.check.subject import DOCUMENTS
from harness.core.digest import of_json
from harness.core.engine import Engine
from harness.core.errors import IndexNotReady, UnknownName
from harness.core.records import Document

WHOLE, SMALL = "all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return dense.engine({"embedder": "hash", "max_tokens": 64}, tmp_path / "cache")


def test_the_score_is_the_cosine(engine: Engine, index: Path) -> None:
    documents = [Document("a", "salt", "sea"), Document("b", "", "salt"), Document("c", "", "moss")]
    engine.build(documents, index)
    with engine.open(index) as searcher:
        hits = searcher.search("salt", 10).hits
    assert [hit.doc_id for hit in hits] == ["b", "a"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.5**0.5], abs=1e-3)
    assert all(hit.score == min(1.0, hit.raw_score) for hit in hits)


def test_title_and_text_are_read_as_one(engine: Engine, index: Path) -> None:
    engine.build([Document("a", "salt", "sea"), Document("b", "", "salt sea")], index)
    with engine.open(index) as searcher:
        first, second = searcher.search("sea salt", 10).hits
    assert (first.doc_id, second.doc_id) == ("a", "b")
    assert first.score == second.score


def test_vectors_are_kept_between_buildings(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    made = engine.build(DOCUMENTS, tmp_path / "one")
    monkeypatch.setattr(HashEmbedder, "embed", None)
    assert engine.build(DOCUMENTS, tmp_path / "two") == made
    for file in (VECTORS, IDS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_embedder_is_part_of_the_identity(tmp_path: Path) -> None:
    made = {}
    for name in ("hash", "all-MiniLM-L6-v2"):
        (tmp_path / name).mkdir()
        engine = Dense(Settings(embedder=name, max_tokens=64), tmp_path / "cache")
        made[name] = engine.build(DOCUMENTS[:2], tmp_path / name)
    assert made["hash"].version == HashEmbedder().identity
    assert made["hash"].version != made["all-MiniLM-L6-v2"].version


def test_without_a_query_embedder_the_identity_is_what_it_was(tmp_path: Path) -> None:
    named = {"embedder": "hash", "max_tokens": 64}
    made = dense.engine(named, tmp_path / "cache").build(DOCUMENTS, tmp_path)
    assert made.settings_sha256 == of_json(named)
    assert made.version == HashEmbedder().identity


def test_queries_may_have_an_embedder_of_the_same_weights(tmp_path: Path) -> None:
    vectors, asked, made = {}, {}, {}
    for name, more in (("one", {}), ("two", {"query_embedder": SMALL})):
        (tmp_path / name).mkdir()
        engine = dense.engine({"embedder": WHOLE, "max_tokens": 64, **more}, tmp_path / "cache")
        made[name] = engine.build(DOCUMENTS[:3], tmp_path / name)
        vectors[name] = (tmp_path / name / VECTORS).read_bytes()
        with engine.open(tmp_path / name) as searcher:
            assert isinstance(searcher, DenseSearcher)
            found = searcher.query_vector("moss")
            assert found is not None
            asked[name] = found
    assert vectors["one"] == vectors["two"]
    (rounded,) = embedder_of(SMALL, 64).embed(["moss"])
    assert (asked["two"] == rounded).all()
    assert not (asked["one"] == rounded).all()
    assert (
        made["two"].version
        == f"{made['one'].version}; queries by {identity_of_embedder(SMALL, 64)}"
    )
    with pytest.raises(IndexNotReady), engine.open(tmp_path / "one"):
        pass


@pytest.mark.parametrize(("embedder", "queries"), [("hash", WHOLE), (WHOLE, "hash")])
def test_queries_by_other_weights_are_refused(embedder: str, queries: str, tmp_path: Path) -> None:
    named = {"embedder": embedder, "max_tokens": 64, "query_embedder": queries}
    with pytest.raises(ValidationError, match="no directions in common"):
        dense.engine(named, tmp_path)


def test_an_unknown_query_embedder_is_told_what_there_is(tmp_path: Path) -> None:
    engine = dense.engine(
        {"embedder": WHOLE, "max_tokens": 64, "query_embedder": "word2vec"}, tmp_path / "cache"
    )
    with pytest.raises(UnknownName, match="word2vec"):
        engine.build(DOCUMENTS[:1], tmp_path)


def test_vectors_of_fewer_documents_are_not_ready(engine: Engine, tmp_path: Path) -> None:
    for name, documents in (("one", DOCUMENTS), ("two", DOCUMENTS[:3])):
        (tmp_path / name).mkdir()
        engine.build(documents, tmp_path / name)
    for file in (VECTORS, IDS):
        (tmp_path / "two" / file).replace(tmp_path / "one" / file)
    with pytest.raises(IndexNotReady, match="holds 3"), engine.open(tmp_path / "one"):
        pass


def test_an_unknown_embedder_is_told_what_there_is(tmp_path: Path) -> None:
    engine = Dense(Settings(embedder="word2vec", max_tokens=64), tmp_path)
    with pytest.raises(UnknownName, match="word2vec"):
        engine.build(DOCUMENTS, tmp_path)


@pytest.mark.parametrize("max_tokens", [0, 7, 513])
def test_how_much_is_read_has_bounds(max_tokens: int) -> None:
    with pytest.raises(ValidationError):
        Settings(embedder="hash", max_tokens=max_tokens)
