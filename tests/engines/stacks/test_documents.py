"""The documents stack as an arm: documents by their best chunk, and who answers without a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.check.subject import DOCUMENTS
from harness.core.engine import Engine
from harness.core.errors import ModelNotReady, UnknownName
from harness.core.records import Document
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.documents import models

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


def test_a_document_is_as_good_as_its_best_chunk_and_shown_once(words: Engine, index: Path) -> None:
    long = FILLER + "Honey bees need a hive. " + FILLER + "Bees again. " + FILLER
    given = [Document("long", "", long), Document("short", "", "Bees, among other insects.")]
    words.build(given, index)
    with words.open(index) as searcher:
        hits = searcher.search("honey bees hive", 10).hits
    assert [hit.doc_id for hit in hits] == ["long", "short"]
    assert hits[0].score == 1.0


def test_a_title_is_searched(words: Engine, index: Path) -> None:
    words.build([Document("a", "Sourdough", "Bread."), Document("b", "", "Salt.")], index)
    with words.open(index) as searcher:
        assert searcher.search("sourdough", 10).hits[0].doc_id == "a"
        assert searcher.search("zzz", 10).note == "no word that a chunk has"


def test_without_its_model_the_arm_answers_and_does_not_sign(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
