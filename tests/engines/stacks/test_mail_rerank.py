"""Message search with a reranker: late interaction, a cross-encoder, and what happens without."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engines import registry as arms
from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail.pipeline import retrievers
from harness.core.engine import Answer
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.records import Document
from tests.make import tiny_model
from tests.make.damage import overwrite

DOCUMENTS = [
    Document("m1", "salt", "salt salt salt"),
    Document("m2", "moon", "the sea and the moon"),
    Document("m3", "bread", "salt and water"),
    Document("m4", "water", "water the a bees"),
]
SETTINGS: dict[str, Any] = {
    "mode": "hybrid_rerank",
    "search_engine": "",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "hash",
    "max_tokens": 64,
}
TOKENS: dict[str, Any] = {"embedder": "all-MiniLM-L6-v2", "reranker": retrievers.LATE_INTERACTION}
QUERY = "salt water bread"


def stack(tmp_path: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.Settings.model_validate({**SETTINGS, **changed}), tmp_path / "cache")


def built(engine: mail.Mail, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    engine.build(DOCUMENTS, folder)
    return folder


def asked(engine: mail.Mail, index: Path, *, own: bool) -> Answer:
    """Ask, and check whether the arm signs."""
    with engine.open(index) as searcher:
        answer = searcher.search(QUERY, 10)
        assert (answer.served_by == searcher.manifest.fingerprint) is own
        return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_model.write(tmp_path / "cross-encoder")


def test_a_cross_encoder_replaces_the_scores_of_the_window(tmp_path: Path, folder: Path) -> None:
    sha256 = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    engine = stack(tmp_path, reranker=str(folder), reranker_sha256=sha256)
    answer = asked(engine, built(engine, tmp_path), own=True)
    logits = {d.doc_id: tiny_model.logit(QUERY, f"{d.title} {d.text}") for d in DOCUMENTS}
    assert {hit.doc_id: hit.raw_score for hit in answer.hits}.items() <= logits.items()
    assert answer.hits[0].doc_id == "m3"
    assert answer.note == ""
    assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)


def test_late_interaction_blends(tmp_path: Path) -> None:
    engine = stack(tmp_path, **TOKENS)
    answer = asked(engine, built(engine, tmp_path), own=True)
    assert answer.hits[0].doc_id == "m3"
    assert max(hit.score for hit in answer.hits) <= 1.0
    assert answer == asked(engine, tmp_path / "index", own=True)


def test_without_a_reranker_hybrid_answers_and_the_arm_does_not_sign(tmp_path: Path) -> None:
    engine = stack(tmp_path)
    answer = asked(engine, built(engine, tmp_path), own=False)
    hybrid = stack(tmp_path, mode="hybrid")
    shutil.rmtree(tmp_path / "index")
    assert answer.hits == asked(hybrid, built(hybrid, tmp_path), own=True).hits
    assert "no model for reranking" in answer.note


@pytest.mark.parametrize("gone", ["model.onnx", "tokenizer.json", "damaged"])
def test_a_cross_encoder_that_is_gone_is_named_and_hybrid_answers(
    tmp_path: Path, folder: Path, gone: str
) -> None:
    engine = stack(tmp_path, reranker=str(folder))
    index = built(engine, tmp_path)
    if gone == "damaged":
        (folder / "model.onnx").write_bytes(b"no model")
    else:
        (folder / gone).unlink()
    answer = asked(engine, index, own=False)
    assert answer.hits[0].score == 1.0  # first in both legs
    assert str(folder) in answer.note
    (tmp_path / "again").mkdir()
    with pytest.raises(ModelNotReady, match="cross-encoder"):
        engine.build(DOCUMENTS, tmp_path / "again")


def test_other_weights_than_stated_are_named_and_hybrid_answers(
    tmp_path: Path, folder: Path
) -> None:
    sha256 = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    engine = stack(tmp_path, reranker=str(folder), reranker_sha256=sha256)
    index = built(engine, tmp_path)
    tiny_model.write(folder, outputs=2)
    assert f"stated is {sha256}" in asked(engine, index, own=False).note


def test_other_weights_where_none_are_stated_are_another_arm(tmp_path: Path, folder: Path) -> None:
    engine = stack(tmp_path, reranker=str(folder))
    index = built(engine, tmp_path)
    tiny_model.write(folder, outputs=2)
    with pytest.raises(IndexNotReady, match="version"), engine.open(index):
        pass


def test_a_model_of_two_outputs_fails_at_the_question_and_hybrid_answers(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "two", outputs=2)
    engine = stack(tmp_path, reranker=str(folder))
    assert "one logit a pair" in asked(engine, built(engine, tmp_path), own=False).note


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_broken_token_vectors_are_named_and_hybrid_answers(tmp_path: Path, damage: str) -> None:
    engine = stack(tmp_path, **TOKENS)
    index = built(engine, tmp_path)
    path = index / retrievers.FILE
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    overwrite(path, raw)
    if damage == "gone":
        path.unlink()
    assert retrievers.FILE in asked(engine, index, own=False).note


def test_another_mode_needs_no_reranker(tmp_path: Path) -> None:
    engine = stack(tmp_path, mode="lexical", reranker=str(tmp_path / "nowhere"))
    assert asked(engine, built(engine, tmp_path), own=True).note == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"reranker": retrievers.LATE_INTERACTION},
        {"reranker": retrievers.LATE_INTERACTION, "embedder": ""},
        {"reranker_sha256": "abc"},
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        stack(tmp_path, **changed)


def test_the_arm_is_mail_hybrid_with_a_reranker() -> None:
    settings = {
        name: arms.load(name, Path()).engine.settings.model_dump()  # type: ignore[attr-defined]
        for name in ("mail-hybrid", "mail-rerank")
    }
    changed = {"mode": "hybrid_rerank", "reranker": retrievers.LATE_INTERACTION}
    assert settings["mail-rerank"] == {**settings["mail-hybrid"], **changed}
