"""Dense stacks, documents and explanations."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.check.checks import check
from harness.check.subject import DOCUMENTS
from harness.core.digest import of_json
from harness.core.engine import Engine, Explains
from harness.core.errors import BadPolicy, IndexNotReady, ModelNotReady, UnknownName
from harness.core.records import Document
from harness_engines import registry
from harness_engines.registry import Arm
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.documents import models
from harness_engines.stacks.text import dense
from harness_engines.stacks.text.dense import Dense, DenseSearcher, DenseSettings
from harness_engines.stacks.text.nearest import GRAPH
from harness_engines.vector.amvi import IDS, VECTORS
from harness_engines.vector.embedder import HashEmbedder, embedder_of, identity_of_embedder
from tests.engines.conftest import Standing
from tests.source import ROOT

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


def test_vectors_are_kept(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        engine = Dense(DenseSettings(embedder=name, max_tokens=64), tmp_path / "cache")
        made[name] = engine.build(DOCUMENTS[:2], tmp_path / name)
    assert made["hash"].version == HashEmbedder().identity
    assert made["hash"].version != made["all-MiniLM-L6-v2"].version
    named = {"embedder": "hash", "max_tokens": 64}
    manifest = dense.engine(named, tmp_path / "cache").build(DOCUMENTS, tmp_path)
    assert manifest.settings_sha256 == of_json(named)
    assert manifest.version == HashEmbedder().identity


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


@pytest.mark.parametrize("wrong", [{"query_embedder": "word2vec"}, {"embedder": "word2vec"}])
def test_an_unknown_embedder_is_told_what_there_is(tmp_path: Path, wrong: dict[str, str]) -> None:
    engine = dense.engine({"embedder": WHOLE, "max_tokens": 64, **wrong}, tmp_path / "cache")
    with pytest.raises(UnknownName, match="word2vec"):
        engine.build(DOCUMENTS[:1], tmp_path)
    for max_tokens in (0, 7, 513):
        with pytest.raises(ValidationError):
            DenseSettings(embedder="hash", max_tokens=max_tokens)


def test_vectors_of_fewer_documents_are_not_ready(engine: Engine, tmp_path: Path) -> None:
    for name, some in (("one", DOCUMENTS), ("two", DOCUMENTS[:3])):
        (tmp_path / name).mkdir()
        engine.build(some, tmp_path / name)
    for file in (VECTORS, IDS):
        (tmp_path / "two" / file).replace(tmp_path / "one" / file)
    with pytest.raises(IndexNotReady, match="holds 3"), engine.open(tmp_path / "one"):
        pass


EXAMPLES = ROOT / "examples" / "nearest"
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


def test_a_damaged_graph_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    of = arm(tmp_path, "nearest")
    of.build(NEAREST_DOCUMENTS[:5], index)
    (index / GRAPH).write_bytes(b"no graph")
    with pytest.raises(IndexNotReady, match="Build it again"), of.open(index):
        pass
    with pytest.raises(BadPolicy, match="building is below links"):
        arm(tmp_path, "nearest", "links = 16\nbuilding = 4")


@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    found = check(str(EXAMPLES / "nearest-hash.toml"), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


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


def test_models_are_part_of_the_identity(tmp_path: Path) -> None:
    versions = set()
    others: tuple[dict[str, object], ...] = ({}, {"sparse": ""}, {"max_tokens": 48})
    for at, changed in enumerate(others):
        (tmp_path / str(at)).mkdir()
        engine = documents.engine({**FREE, **changed}, tmp_path / "cache")
        versions.add(engine.build(DOCUMENTS[:1], tmp_path / str(at)).version)
    assert len(versions) == 3


def test_settings_name_models_that_there_are(tmp_path: Path, index: Path) -> None:
    with pytest.raises(UnknownName, match="splade-tiny"):
        documents.engine({**FREE, "sparse": "splade-huge"}, tmp_path).build((), index)
    with pytest.raises(ValidationError):
        documents.engine({**FREE, "fusion": "grep"}, tmp_path)


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
