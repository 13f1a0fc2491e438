"""Words and vectors together, by reciprocal rank and by their scores, and stages that are told."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from harness.check.subject import DOCUMENTS, OBVIOUS
from harness.core.engine import Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines import contract
from harness_engines import registry as arms
from harness_engines.lexical import query
from harness_engines.ranking import combine, fuse
from harness_engines.stacks.text import hybrid
from harness_engines.stacks.text.blend import Blend, BlendSearcher, BlendSettings
from harness_engines.stacks.text.hybrid import Hybrid, HybridSettings
from harness_engines.stacks.text.rerank import FUSED, IDS, TOKENS, Rerank, RerankSettings
from harness_engines.vector.embedder import OnnxEmbedder
from tests.make.damage import flip, overwrite


def given() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / "hybrid-rrf.toml").read_text())
    found["settings"]["legs"]["semantic"]["settings"]["embedder"] = "hash"
    return dict(found["settings"])


@pytest.fixture
def engine(tmp_path: Path) -> Hybrid:
    return Hybrid(HybridSettings.model_validate(given()), tmp_path / "cache")


@pytest.fixture
def built(engine: Hybrid, index: Path) -> Path:
    engine.build(DOCUMENTS, index)
    return index


def refused(engine: Hybrid | Blend | Rerank, index: Path, why: str) -> None:
    with pytest.raises(IndexNotReady, match=why), engine.open(index):
        pass


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


def test_a_killed_build_is_no_index(
    engine: Hybrid, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(contract, "joined", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.build(DOCUMENTS, index)
    refused(engine, index, "version")


def test_a_leg_that_weighs_more_decides(tmp_path: Path) -> None:
    shown = {}
    documents = [
        Document("phrase", "", "gravel lantern stone fern"),
        Document("words", "", "lantern gravel"),
    ]
    for weight in (0.01, 100.0):
        settings = given()
        settings["legs"]["lexical"] = {**settings["legs"]["lexical"], "weight": weight}
        engine = hybrid.engine(settings, tmp_path / "cache")
        folder = tmp_path / str(weight)
        folder.mkdir()
        engine.build(documents, folder)
        with engine.open(folder) as searcher:
            shown[weight] = [hit.doc_id for hit in searcher.search("gravel_lantern", 4).hits]
    assert shown == {0.01: ["words", "phrase"], 100.0: ["phrase", "words"]}


def blended(**changed: object) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / "hash-hybrid.toml").read_text())
    return dict(found["settings"]) | changed


@pytest.fixture
def blend(tmp_path: Path) -> Blend:
    return Blend(BlendSettings.model_validate(blended()), tmp_path / "cache")


@pytest.fixture
def searcher(blend: Blend, index: Path) -> Iterator[BlendSearcher]:
    blend.build(DOCUMENTS, index)
    with blend.open(index) as opened:
        assert isinstance(opened, BlendSearcher)
        yield opened


@contextmanager
def of(folder: Path, *texts: str, **changed: object) -> Iterator[BlendSearcher]:
    """Open a searcher over documents ``a``, ``b`` and so on."""
    made = Blend(BlendSettings.model_validate(blended(**changed)), folder / "cache")
    index = folder / "index"
    index.mkdir()
    made.build([Document("abcdef"[at], "", text) for at, text in enumerate(texts)], index)
    with made.open(index) as searcher:
        assert isinstance(searcher, BlendSearcher)
        yield searcher


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
    with of(tmp_path, "the the the", "moss fern stone", depth=1, vector_share=0.1) as searcher:
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [("moss -lantern", {"a"}), ("moss +lantern", {"b", "c"}), ("moss NOT lantern", {"a"})],
)
def test_signs_hold_for_what_vectors_find(tmp_path: Path, text: str, shown: set[str]) -> None:
    with of(tmp_path, "moss fern", "moss lantern", "lantern fern") as searcher:
        assert {hit.doc_id for hit in searcher.search(text, 10).hits} == shown


def test_a_name_has_no_stem_and_is_no_stop_word(tmp_path: Path) -> None:
    with of(tmp_path, "where", "moss", "runs run run", "running") as searcher:
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
def test_a_title_or_its_end_is_a_name(tmp_path: Path, index: Path, text: str, share: float) -> None:
    blend = Blend(BlendSettings.model_validate(blended()), tmp_path)
    blend.build(TITLED, index)
    with blend.open(index) as searcher:
        assert isinstance(searcher, BlendSearcher)
        assert searcher.explain(text, 1, {}).answer == {"vector_share": share}
        assert share == 0.7 or searcher.search(text, 3).hits[0].doc_id == "a"


def test_words_of_a_name_are_looked_up_as_the_name(tmp_path: Path, index: Path) -> None:
    """``to`` is a stop word, and three documents have both words."""
    for told in (True, False):
        blend = Blend(BlendSettings.model_validate(blended(title_names=told)), tmp_path)
        shutil.rmtree(index)
        index.mkdir()
        blend.build(TITLED, index)
        with blend.open(index) as searcher:
            assert isinstance(searcher, BlendSearcher)
            words = (searcher.names if told else searcher.words).search(
                "to_frame" if told else "to frame", 3
            )
            said = searcher.explain("to frame", 3, {}).hits
        assert {d: why["bm25"] for d, why in said.items() if why["bm25"]} == {
            hit.doc_id: hit.raw_score for hit in words.hits
        }


@pytest.mark.parametrize("said", [None, "[1", "7"])
def test_broken_title_names_are_not_ready(blend: Blend, index: Path, said: str | None) -> None:
    blend.build(TITLED, index)
    path = index / query.FILE
    path.unlink() if said is None else path.write_text(said)
    with pytest.raises(IndexNotReady, match=r"title_names\.json"), blend.open(index):
        pass


TEXT = "water that rises in the sea"


def reranked(**changed: object) -> RerankSettings:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / "hybrid-rerank.toml").read_text())
    return RerankSettings.model_validate({**found["settings"], **changed})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def rerank(cache: Path) -> Rerank:
    return Rerank(reranked(), cache)


@pytest.fixture
def whole(rerank: Rerank, index: Path) -> Path:
    rerank.build(DOCUMENTS, index)
    return index


def ids(searcher: Searcher, text: str = TEXT, k: int = 50) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, k).hits]


@pytest.mark.parametrize("changed", [{}, {"window": 3}, {"fused_weight": 1.0}])
def test_it_reorders_the_candidates_of_the_fused_stack(
    cache: Path, index: Path, changed: dict[str, Any]
) -> None:
    rerank = Rerank(reranked(**changed), cache)
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


def test_one_bit_is_a_sixteenth(rerank: Rerank, whole: Path, cache: Path, tmp_path: Path) -> None:
    small = Rerank(reranked(token_bits=1), cache)
    (tmp_path / "small").mkdir()
    small.build(DOCUMENTS, tmp_path / "small")
    sizes = [(folder / TOKENS).stat().st_size for folder in (whole, tmp_path / "small")]
    assert sizes[0] / 17 < sizes[1] < sizes[0] / 12
    with rerank.open(whole) as halves, small.open(tmp_path / "small") as signs:
        for text in OBVIOUS:
            assert ids(halves, text)[0] == ids(signs, text)[0]
            assert sorted(ids(halves, text)) == sorted(ids(signs, text))
    refused(rerank, tmp_path / "small", "settings")


def test_a_text_is_read_once_for_tokens_and_vectors(index: Path, tmp_path: Path) -> None:
    rerank = Rerank(reranked(), tmp_path / "cache of its own")
    with patch.object(OnnxEmbedder, "embed", side_effect=AssertionError("read again")):
        rerank.build(DOCUMENTS, index)


@pytest.mark.parametrize(
    "damage", ["flipped", "gone", b"{", b"[]", json.dumps(["a"] * len(DOCUMENTS)).encode()]
)
def test_broken_files_are_not_ready(rerank: Rerank, whole: Path, damage: str | bytes) -> None:
    tokens = isinstance(damage, str)
    path = whole / (TOKENS if tokens else IDS)
    if damage == "flipped":
        flip(path)
    elif damage == "gone":
        path.unlink()
    else:
        overwrite(path, damage.encode() if isinstance(damage, str) else damage)
    refused(rerank, whole, TOKENS if tokens else "harness stage index")


PARTS = [
    *(("hybrid", leg) for leg in ("lexical", "semantic")),
    *(("blend", part) for part in ("lexical", "semantic", "names")),
    ("rerank", FUSED),
]


def compound(of: str, cache: Path, **changed: object) -> Hybrid | Blend | Rerank:
    """Make a stack with parts, some of its settings changed."""
    if of == "hybrid":
        return Hybrid(HybridSettings.model_validate(given() | changed), cache)
    if of == "blend":
        return Blend(BlendSettings.model_validate(blended(**changed)), cache)
    return Rerank(reranked(**changed), cache)


@pytest.mark.parametrize(("of", "part"), PARTS)
def test_a_foreign_part_is_refused(
    of: str, part: str, cache: Path, index: Path, tmp_path: Path
) -> None:
    engine, other = compound(of, cache), tmp_path / "other"
    engine.build(DOCUMENTS, index)
    other.mkdir()
    engine.build([Document(f"x{at}", "", "moss") for at in range(len(DOCUMENTS))], other)
    shutil.rmtree(index / part)
    refused(engine, index, "no index here")
    (other / part).replace(index / part)
    refused(engine, index, "version")


@pytest.mark.parametrize(("of", "part"), PARTS)
def test_its_identity_is_of_its_parts(of: str, part: str, cache: Path, index: Path) -> None:
    engine = compound(of, cache)
    made = engine.build(DOCUMENTS, index)
    assert contract.read(index) == made
    assert contract.read(index / part).fingerprint[:16] in made.version
    assert not isinstance(engine, Rerank) or engine.embedder().identity in made.version


@pytest.mark.parametrize(
    ("of", "changed"),
    [
        ("hybrid", {"rrf_k": 0}),
        ("hybrid", {"depth": 0}),
        ("hybrid", {"legs": {}}),
        ("hybrid", {"legs": {"lexical": given()["legs"]["lexical"]}}),
        ("hybrid", {"legs": {"A": given()["legs"]["lexical"], "b": given()["legs"]["semantic"]}}),
        ("hybrid", {"legs": {"a": given()["legs"]["lexical"], "b": {"stack": "fts5"}}}),
        ("blend", {"depth": 0}),
        ("blend", {"vector_share": 1.1}),
        ("blend", {"name_share": -0.1}),
        ("blend", {"vectors": {"embedder": "hash"}}),
        ("blend", {"rrf_k": 60}),
        ("rerank", {"window": 0}),
        ("rerank", {"fused_weight": 1.1}),
        ("rerank", {"hybrid": {}}),
        ("rerank", {"max_tokens": 1}),
    ],
)
def test_bad_settings_are_refused(of: str, changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        compound(of, tmp_path, **changed)
