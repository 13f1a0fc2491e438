"""Dense stacks, documents and explanations."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS
from harness.core.engine import Engine, Explains
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.records import Document
from harness_engines import registry
from harness_engines.registry import Arm
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.documents import models
from harness_engines.stacks.text import dense
from harness_engines.stacks.text.dense import DenseSearcher
from harness_engines.stacks.text.nearest import GRAPH
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


NEAREST_DOCUMENTS = [
    Document(f"d{at:04}", f"cone {at % 7} red", f"cube {at % 11} blue {at % 13} sand {at}")
    for at in range(600)
]
QUERIES = [f"blue {at % 13} cube {at % 11} cone" for at in range(20)]


def arm(folder: Path, stack: str, lines: str = "") -> Arm:
    path = folder / f"{stack}.toml"
    usual = 'embedder = "hash"\nmax_tokens = 64'
    path.write_text(f'summary = "x"\nstack = "{stack}"\n[settings]\n{usual}\n{lines}', "utf-8")
    return registry.load(str(path), folder)


def shown(of: Arm, index: Path, k: int = 10) -> list[list[tuple[str, float]]]:
    with of.open(index) as searcher:
        found = [searcher.search(text, k).hits for text in QUERIES]
    return [[(hit.doc_id, hit.raw_score) for hit in hits] for hits in found]


def test_a_graph_that_looks_at_all_gives_what_the_scan_gives(tmp_path: Path) -> None:
    built = {}
    for stack, lines in (("dense", ""), ("nearest", "searching = 600")):
        index = tmp_path / f"{stack}-index"
        index.mkdir()
        of = arm(tmp_path, stack, lines)
        of.build(NEAREST_DOCUMENTS, index)
        built[stack] = shown(of, index)
    assert built["nearest"] == built["dense"]
    near = arm(tmp_path, "nearest", "searching = 1\nlinks = 2\nbuilding = 2")
    index = tmp_path / "near"
    index.mkdir()
    near.build(NEAREST_DOCUMENTS, index)
    again = tmp_path / "again"
    again.mkdir()
    near.build(NEAREST_DOCUMENTS[::-1], again)
    assert (again / GRAPH).read_bytes() == (index / GRAPH).read_bytes()
    overlooked = shown(near, index)
    assert overlooked != built["dense"]
    cosines = dict(pair for hits in shown(arm(tmp_path, "dense"), tmp_path / "dense-index", 600)[:1]
                   for pair in hits)  # fmt: skip
    assert all(cosines[doc_id] == cosine for doc_id, cosine in overlooked[0])


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
FILLER = "Nothing of note is said in this sentence. " * 8


@pytest.fixture
def words(tmp_path: Path) -> Engine:
    return documents.engine(WORDS, tmp_path / "cache")


def test_a_title_is_searched(words: Engine, index: Path, tmp_path: Path) -> None:
    words.build([Document("a", "Sourdough", "Bread."), Document("b", "", "Salt.")], index)
    with words.open(index) as searcher:
        assert searcher.search("sourdough", 10).hits[0].doc_id == "a"
        assert searcher.search("zzz", 10).note == "no word that a chunk has"
    long = FILLER + "Honey bees need a hive. " + FILLER + "Bees again. " + FILLER
    given = [Document("long", "", long), Document("short", "", "Bees, among other insects.")]
    (tmp_path / "bees").mkdir()
    words.build(given, tmp_path / "bees")
    with words.open(tmp_path / "bees") as searcher:
        hits = searcher.search("honey bees hive", 10).hits
    assert [hit.doc_id for hit in hits] == ["long", "short"]
    assert hits[0].score == 1.0


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
