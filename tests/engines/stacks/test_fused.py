"""Words, vectors and both together: by reciprocal rank, by their scores, and reranked."""

import json
import random
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tantivy import Query

from harness.check.subject import DOCUMENTS, OBVIOUS
from harness.core.engine import Engine, Searcher
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.lexical.tantivy import columns
from harness_engines.ranking import combine, fuse
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.documents import ranking
from harness_engines.stacks.text import dense
from harness_engines.stacks.text.blend import Blend, BlendSearcher, BlendSettings
from harness_engines.stacks.text.dense import DenseSearcher
from harness_engines.stacks.text.hybrid import Hybrid, HybridSettings
from harness_engines.stacks.text.rerank import FUSED, Rerank, RerankSettings
from harness_engines.stacks.text.tantivy import Tantivy, TantivySearcher, TantivySettings
from harness_engines.vector.amvi import EMBEDDER, VECTORS, write_amvi
from harness_engines.vector.embedder import embedder_of, identity_of_embedder

WORDS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")


def tantivy(**given: Any) -> Tantivy:  # noqa: ANN401  settings of any type
    usual: dict[str, Any] = {
        "language": "none",
        "bm25_over": "document",
        "title_weight": 2.0,
        "text_weight": 1.0,
        "joined": "both",
    }
    return Tantivy(TantivySettings(**usual | given))


def tied(count: int) -> list[Document]:
    """Documents of so few words that most are equal to many others."""
    rng = random.Random(3)
    return [
        Document(
            f"d{at:04}",
            " ".join(rng.choices(WORDS, k=rng.randint(0, 2))),
            " ".join(rng.choices(WORDS, k=rng.randint(1, 3))),
        )
        for at in range(count)
    ]


QUESTIONS = (
    *WORDS[:3],
    "ant bee",
    "ant bee cat dog eel",
    "+ant bee cat",
    "ant AND bee",
    "ant -bee",
    '"ant bee" cat',
    "ant-bee-cat",
)


@pytest.mark.slow
def test_the_order_is_that_of_a_full_sort(tmp_path: Path) -> None:
    same = random.Random(1).sample(
        [Document(f"d{at:04}", "moss", "stone") for at in range(800)], 800
    )
    for name, texts in (("tied", tied(500)), ("same", same)):
        (tmp_path / name).mkdir()
        made = tantivy()
        made.build(texts, tmp_path / name)
        with made.open(tmp_path / name) as searcher:
            for text in ("moss stone",) if name == "same" else QUESTIONS:
                everything = searcher.search(text, 800).hits
                keys = [(-hit.raw_score, hit.doc_id) for hit in everything]
                assert keys == sorted(keys)
                for k in (1, 3, 7, 40, 799, 801):
                    few = [(-h.raw_score, h.doc_id) for h in searcher.search(text, k).hits]
                    assert few == keys[:k]
            assert isinstance(searcher, TantivySearcher)
            moss = Query.term_query(searcher.schema, "text", "moss")
            for k in (1, 7, 40):
                found = columns(searcher.searcher, moss, k, schema=searcher.schema, ids="id")
                every = range(k if name == "same" else 0)
                assert list(found.documents) == list(every)
    assert len({score for score, _ in keys}) == 1
    assert len(keys) == 800


PHRASES = [Document("a", "moss fern", "stone gravel"), Document("b", "", "fern moss")]
KINGS = [Document("a", "", "the king of england"), Document("b", "", "king england, to be")]
IN_TITLES = {'"moss fern"': "a", '"fern moss"': "b", '"fern stone"': "", '"stone gravel"': "a"}
OF_STOP_WORDS = (
    ('"king of england"', "a"),
    ('"king england"', "b"),
    ('"kings of england"', "a"),
    ('"king by the sea"', ""),
    ("king-of-england", "ab"),
    *((text, "") for text in ("the", "to be or not to be", '"of the"', "+the", "the -king")),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "settings", "text", "shown"),
    [
        *((PHRASES, {"bm25_over": "document"}, *asked) for asked in IN_TITLES.items()),
        *((PHRASES, {"bm25_over": "fields"}, *asked) for asked in IN_TITLES.items()),
        *((KINGS, {"language": "english"}, *asked) for asked in OF_STOP_WORDS),
    ],
)
def test_no_phrase_reaches_over_a_title_and_a_stop_word_keeps_its_place(
    index: Path, documents: list[Document], settings: dict[str, str], text: str, shown: str
) -> None:
    made = tantivy(**settings)
    made.build(documents, index)
    with made.open(index) as searcher:
        assert [hit.doc_id for hit in searcher.search(text, 10).hits] == [*shown]


@pytest.fixture
def engine(tmp_path: Path) -> Hybrid:
    settings = tomllib.loads((arms.FOLDER / "hybrid-rrf.toml").read_text())["settings"]
    settings["legs"]["semantic"]["settings"]["embedder"] = "hash"
    return Hybrid(HybridSettings.model_validate(settings), tmp_path / "cache")


@pytest.fixture
def built(engine: Hybrid, index: Path) -> Path:
    engine.build(DOCUMENTS, index)
    return index


def test_it_shows_what_its_legs_show_fused(engine: Hybrid, built: Path) -> None:
    rankings = {}
    for name, leg in engine.engines().items():
        with leg.open(built / name) as searcher:
            rankings[name] = {
                text: [hit.doc_id for hit in searcher.search(text, 100).hits] for text in OBVIOUS
            }
    weights = {"lexical": 1.0, "semantic": 1.0}
    with engine.open(built) as searcher:
        for text in OBVIOUS:
            by_leg = {name: shown[text] for name, shown in rankings.items()}
            expected = fuse(by_leg, weights, rrf_k=60, k=10)
            assert searcher.search(text, 10).hits == expected


def test_a_part_of_other_documents_is_refused(engine: Hybrid, built: Path) -> None:
    shutil.rmtree(built / "lexical")
    (built / "lexical").mkdir()
    others = [Document(one.doc_id, one.title, "moss") for one in DOCUMENTS]
    engine.engines()["lexical"].build(others, built / "lexical")
    with pytest.raises(IndexNotReady, match="built by another arm"), engine.open(built):
        pass


def test_a_count_that_its_parts_do_not_hold_is_refused(engine: Hybrid, built: Path) -> None:
    about = json.loads((built / "manifest.json").read_text())
    (built / "manifest.json").write_text(json.dumps(about | {"documents": 0}))
    with pytest.raises(IndexNotReady, match="says 0 documents"), engine.open(built):
        pass


@contextmanager
def blend(
    folder: Path, documents: Sequence[Document] = DOCUMENTS, **changed: object
) -> Iterator[BlendSearcher]:
    settings = tomllib.loads((arms.FOLDER / "hash-hybrid.toml").read_text())["settings"]
    made = Blend(BlendSettings.model_validate(settings | changed), folder / "cache")
    index = folder / "index"
    index.mkdir()
    made.build(documents, index)
    with made.open(index) as searcher:
        assert isinstance(searcher, BlendSearcher)
        yield searcher


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlendSearcher]:
    with blend(tmp_path_factory.mktemp("blend")) as opened:
        yield opened


def texts(*texts: str) -> list[Document]:
    """Return documents ``a``, ``b`` and so on."""
    return [Document("abcdef"[at], "", text) for at, text in enumerate(texts)]


def test_it_adds_what_words_and_vectors_say(searcher: BlendSearcher) -> None:
    for text in OBVIOUS:
        lexical = searcher.names if len(text.split()) == 1 else searcher.words
        words = {hit.doc_id: hit.raw_score for hit in lexical.search(text, 100).hits}
        cosines = {hit.doc_id: hit.raw_score for hit in searcher.vectors.search(text, 100).hits}
        share = searcher.explain(text, 10, {}).answer["vector_share"]
        weights = {"lexical": 1 - share, "semantic": share}
        expected = combine({"lexical": words, "semantic": cosines}, weights, 10)
        assert searcher.search(text, 10).hits == expected
    alone = [searcher.search(text, 10) for text in OBVIOUS]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda text: searcher.search(text, 10), OBVIOUS)) == alone
    assert searcher.search("   ", 10).hits == ()


def test_what_words_found_has_its_cosine_however_far_down(tmp_path: Path) -> None:
    """``the`` is a stop word, and no candidate of words; for the vectors it is all of the query."""
    asked = "the the the moss"
    two = texts("the the the", "moss fern stone")
    with blend(tmp_path, two, depth=1, vector_share=0.1) as searcher:
        assert [hit.doc_id for hit in searcher.vectors.search(asked, 1).hits] == ["a"]
        exact = {hit.doc_id: hit.raw_score for hit in searcher.vectors.search(asked, 2).hits}
        said = searcher.explain(asked, 1, {}).hits
    assert {name: of_hit["cosine"] for name, of_hit in said.items()} == {"b": exact["b"]}
    assert exact["b"] > 0


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("moss", 0.2),
        ("read_csv", 0.2),
        ("Axes.set_title", 0.2),
        ('"moss lantern"', 0.2),
        ('"moss lantern" "stone"', 0.2),
        ('"moss lantern" stone', 0.7),
        ("moss lantern", 0.7),
        ("how to use read_csv", 0.7),
    ],
)
def test_names_and_phrases_ask_words(searcher: BlendSearcher, text: str, share: float) -> None:
    assert searcher.explain(text, 1, {}).answer == {"vector_share": share}


def test_a_name_has_no_stem_and_is_no_stop_word(tmp_path: Path) -> None:
    with blend(tmp_path, texts("where", "moss", "runs run run", "running")) as searcher:
        told = {text: searcher.explain(text, 4, {}).hits for text in ("where", "running")}
        assert {d for d, why in told["where"].items() if why["bm25"]} == {"a"}
        assert {d for d, why in told["running"].items() if why["bm25"]} == {"d"}
        stemmed = searcher.explain("running moss", 4, {}).hits
        assert {d for d, why in stemmed.items() if why["bm25"]} == {"b", "c", "d"}


TITLED = [
    Document("a", "pandas.Index.to_frame", "labels"),
    Document("b", "notes", "from a line to the frame of it, to frame"),
    Document("c", "to-frame and more", "frames"),
]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("to frame", 0.2),
        ("Index to_frame", 0.2),
        ("Pandas index to frame", 0.2),
        ("index to", 0.7),
        ("frame to", 0.7),
        ("frame and more", 0.7),
        ("+to frame", 0.7),
        ("how to frame", 0.7),
    ],
)
def test_a_title_or_its_end_is_a_name(tmp_path: Path, text: str, share: float) -> None:
    with blend(tmp_path, TITLED) as searcher:
        assert searcher.explain(text, 1, {}).answer == {"vector_share": share}
        if share == 0.2:
            named = searcher.names.search(text.replace(" ", "_"), 3).hits
            assert searcher.explain(text, 3, {}).hits["a"]["bm25"] == named[0].raw_score
            assert searcher.search(text, 3).hits[0].doc_id == named[0].doc_id == "a"


TEXT = "water that rises in the sea"


def ids(searcher: Searcher, text: str) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, 50).hits]


@pytest.mark.parametrize("changed", [{}, {"window": 3}, {"fused_weight": 1.0}])
def test_it_reorders_the_candidates_of_the_fused_stack(
    tmp_path: Path, index: Path, changed: dict[str, Any]
) -> None:
    settings = tomllib.loads((arms.FOLDER / "hybrid-rerank.toml").read_text())["settings"]
    rerank = Rerank(RerankSettings.model_validate(settings | changed), tmp_path)
    rerank.build(DOCUMENTS, index)
    with rerank.open(index) as searcher, rerank.engines()[FUSED].open(index / FUSED) as fused:
        texts = (*OBVIOUS, TEXT)
        shown, before = ({text: ids(of, text) for text in texts} for of in (searcher, fused))
        hits = searcher.search(TEXT, 50).hits
    head = changed.get("window", 50)
    for text in texts:
        assert sorted(shown[text][:head]) == sorted(before[text][:head])
        assert shown[text][head:] == before[text][head:]
    assert (shown == before) == ("fused_weight" in changed)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert "window" not in changed or scores[2] > scores[3] > scores[-1] > 0.0


WHOLE, SMALL = "all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"


@pytest.fixture
def hashed(tmp_path: Path) -> Engine:
    return dense.engine({"embedder": "hash", "max_tokens": 64}, tmp_path / "cache")


def test_the_score_is_the_cosine(hashed: Engine, index: Path) -> None:
    texts = {"a": ("salt", "sea"), "b": ("", "salt"), "c": ("", "moss"), "d": ("", "salt sea")}
    hashed.build([Document(doc_id, *fields) for doc_id, fields in texts.items()], index)
    with hashed.open(index) as searcher:
        hits = searcher.search("salt", 10).hits
    assert [hit.doc_id for hit in hits] == ["b", "a", "d"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.5**0.5, 0.5**0.5], abs=1e-3)
    assert hits[1].score == hits[2].score, "title and text are read as one"
    assert all(hit.score == min(1.0, hit.raw_score) for hit in hits)


def test_vectors_of_fewer_documents_are_refused(hashed: Engine, index: Path) -> None:
    hashed.build(DOCUMENTS, index)
    fewer = np.zeros((3, 384), dtype=np.float16)
    write_amvi(index / VECTORS, EMBEDDER, np.arange(3), fewer)
    with pytest.raises(IndexNotReady, match="holds 3 vectors for 15"), hashed.open(index):
        pass


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


FREE = {
    "tier": "free",
    "embedder": "all-MiniLM-L6-v2",
    "sparse": "splade-tiny",
    "max_tokens": 32,
    "fusion": "specification",
    "chunk_characters": 60,
    "chunk_overlap": 10,
}


def test_no_model_no_sign(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = documents.engine(FREE, tmp_path / "cache")
    made = engine.build(DOCUMENTS, index)

    def absent(_: object) -> None:
        raise ModelNotReady("gone")

    monkeypatch.setattr(ranking, "encoder_of", absent)
    with engine.open(index) as searcher:
        answer = searcher.search("honey bees hive", 3)
    assert answer.hits[0].doc_id == "bees"
    assert answer.served_by != made.fingerprint
    assert answer.note == "E6: MODEL_NOT_READY"
    with pytest.raises(ModelNotReady):
        engine.build(DOCUMENTS, tmp_path)
