"""Dense stacks, documents and explanations."""

import json
import tomllib
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS
from harness.core.engine import Engine, Explains
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.records import Document
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.documents import models
from harness_engines.stacks.text import dense
from harness_engines.stacks.text.dense import DenseSearcher
from harness_engines.vector.amvi import VECTORS
from harness_engines.vector.embedder import embedder_of, identity_of_embedder
from tests.engines.conftest import Standing

WHOLE, SMALL = "all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return dense.engine({"embedder": "hash", "max_tokens": 64}, tmp_path / "cache")


def test_the_score_is_the_cosine(engine: Engine, index: Path) -> None:
    texts = {"a": ("salt", "sea"), "b": ("", "salt"), "c": ("", "moss"), "d": ("", "salt sea")}
    engine.build([Document(doc_id, *fields) for doc_id, fields in texts.items()], index)
    with engine.open(index) as searcher:
        hits = searcher.search("salt", 10).hits
    assert [hit.doc_id for hit in hits] == ["b", "a", "d"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.5**0.5, 0.5**0.5], abs=1e-3)
    assert hits[1].score == hits[2].score, "title and text are read as one"
    assert all(hit.score == min(1.0, hit.raw_score) for hit in hits)


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


WORDS = {
    "tier": "free",
    "embedder": "",
    "sparse": "",
    "max_tokens": 32,
    "fusion": "specification",
    "chunk_characters": 60,
    "chunk_overlap": 10,
}
FREE = {**WORDS, "embedder": "all-MiniLM-L6-v2", "sparse": "splade-tiny"}


@pytest.fixture
def words(tmp_path: Path) -> Engine:
    return documents.engine(WORDS, tmp_path / "cache")


def test_no_model_no_sign(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = documents.engine(FREE, tmp_path / "cache")
    made = engine.build(DOCUMENTS, index)

    def absent(_: object) -> None:
        raise ModelNotReady("gone")

    monkeypatch.setattr(models, "encoder_of", absent)
    with engine.open(index) as searcher:
        answer = searcher.search("honey bees hive", 3)
    assert answer.hits[0].doc_id == "bees"
    assert answer.served_by != made.fingerprint
    assert answer.note == "E6: MODEL_NOT_READY"
    with pytest.raises(ModelNotReady):
        engine.build(DOCUMENTS, tmp_path)


TEXT = "moon sea water tides"
OF_AN_ANSWER = {
    "blend": "vector_share",
    "code": "mode",
    "documents": "stagesUsed",
    "mail": "method",
    "writing": "queries",
}
OF_A_HIT = {"blend": "cosine", "code": "selected", "documents": "chunk", "writing": "snippet"}
SILENT = {"dense", "fts5", "hybrid", "rerank", "tantivy"}


@pytest.mark.slow
def test_an_answer_is_explained_by_the_stacks_that_can(standing: Standing) -> None:
    stack = tomllib.loads(standing.arm.path.read_text(encoding="utf-8"))["stack"]
    searcher = standing.searcher
    assert isinstance(searcher, Explains) == (stack not in SILENT), stack
    if not isinstance(searcher, Explains):
        return
    shown = [hit.doc_id for hit in standing.searcher.search(TEXT, 5).hits]
    found = searcher.explain(TEXT, 5, {})
    assert OF_AN_ANSWER[stack] in json.loads(json.dumps(found.answer, allow_nan=False))
    if stack in OF_A_HIT:
        assert list(found.hits) == shown
        assert all(OF_A_HIT[stack] in why for why in found.hits.values())
        json.dumps(dict(found.hits), allow_nan=False)
