"""Words and vectors whose scores are added: what the query weighs, and what must hold."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engines import registry as arms
from engines.lexical import query
from engines.ranking import combine
from engines.stacks.text.blend import Blend, BlendSearcher, Settings
from harness.check.subject import DOCUMENTS, OBVIOUS
from harness.core.errors import IndexNotReady
from harness.core.records import Document


def given(**changed: object) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / "hash-hybrid.toml").read_text())
    return dict(found["settings"]) | changed


@pytest.fixture
def engine(tmp_path: Path) -> Blend:
    return Blend(Settings.model_validate(given()), tmp_path / "cache")


@pytest.fixture
def searcher(engine: Blend, index: Path) -> Iterator[BlendSearcher]:
    engine.build(DOCUMENTS, index)
    with engine.open(index) as opened:
        assert isinstance(opened, BlendSearcher)
        yield opened


@contextmanager
def of(folder: Path, *texts: str, **changed: object) -> Iterator[BlendSearcher]:
    """Open a searcher over documents ``a``, ``b`` and so on."""
    made = Blend(Settings.model_validate(given(**changed)), folder / "cache")
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
def test_a_name_and_a_phrase_are_asked_of_words(
    searcher: BlendSearcher, text: str, share: float
) -> None:
    assert searcher.explain(text, 1, {}).answer == {"vector_share": share}


@pytest.mark.parametrize(
    ("text", "shown"),
    [("moss -lantern", {"a"}), ("moss +lantern", {"b", "c"}), ("moss NOT lantern", {"a"})],
)
def test_what_must_be_and_must_not_be_holds_for_what_vectors_find(
    tmp_path: Path, text: str, shown: set[str]
) -> None:
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
def test_words_that_are_a_name_of_a_title_or_its_end_are_a_name(
    tmp_path: Path, index: Path, text: str, share: float
) -> None:
    engine = Blend(Settings.model_validate(given()), tmp_path)
    engine.build(TITLED, index)
    with engine.open(index) as searcher:
        assert isinstance(searcher, BlendSearcher)
        assert searcher.explain(text, 1, {}).answer == {"vector_share": share}
        assert share == 0.7 or searcher.search(text, 3).hits[0].doc_id == "a"


def test_words_of_a_name_are_looked_up_as_the_name(tmp_path: Path, index: Path) -> None:
    """``to`` is a stop word, and three documents have both words."""
    for told in (True, False):
        engine = Blend(Settings.model_validate(given(title_names=told)), tmp_path)
        shutil.rmtree(index)
        index.mkdir()
        engine.build(TITLED, index)
        with engine.open(index) as searcher:
            assert isinstance(searcher, BlendSearcher)
            words = (searcher.names if told else searcher.words).search(
                "to_frame" if told else "to frame", 3
            )
            said = searcher.explain("to frame", 3, {}).hits
        assert {d: why["bm25"] for d, why in said.items() if why["bm25"]} == {
            hit.doc_id: hit.raw_score for hit in words.hits
        }


@pytest.mark.parametrize("said", [None, "[1", "7"])
def test_names_of_titles_that_are_gone_or_broken_are_not_ready(
    engine: Blend, index: Path, said: str | None
) -> None:
    engine.build(TITLED, index)
    path = index / query.FILE
    path.unlink() if said is None else path.write_text(said)
    with pytest.raises(IndexNotReady, match=r"title_names\.json"), engine.open(index):
        pass


def test_nothing_typed_finds_nothing(searcher: BlendSearcher) -> None:
    assert searcher.search("   ", 10).hits == ()


def test_threads_get_what_one_gets(searcher: BlendSearcher) -> None:
    alone = [searcher.search(text, 10) for text in OBVIOUS]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda text: searcher.search(text, 10), OBVIOUS)) == alone


@pytest.mark.parametrize("part", ["lexical", "semantic", "names"])
def test_a_part_that_is_gone_or_of_another_building_is_not_ready(
    engine: Blend, index: Path, tmp_path: Path, part: str
) -> None:
    engine.build(DOCUMENTS, index)
    other = tmp_path / "other"
    other.mkdir()
    engine.build([Document(f"x{at}", "", "moss") for at in range(len(DOCUMENTS))], other)
    shutil.rmtree(index / part)
    with pytest.raises(IndexNotReady, match="no index here"), engine.open(index):
        pass
    (other / part).replace(index / part)
    with pytest.raises(IndexNotReady, match="version"), engine.open(index):
        pass


@pytest.mark.parametrize(
    "changed",
    [
        {"depth": 0},
        {"vector_share": 1.1},
        {"name_share": -0.1},
        {"vectors": {"embedder": "hash"}},
        {"rrf_k": 60},
    ],
)
def test_settings_that_cannot_be_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(given(**changed))
