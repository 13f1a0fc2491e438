"""What is optional is absent without harm, and what is loaded is loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from engines.stacks.agent_mail import arm as mail
from engines.vector.embedder import Embedder, HashEmbedder
from harness.core.engine import Answer
from harness.core.errors import ModelNotReady
from harness.core.records import Document

DOCUMENTS = [Document("a", "deployment failed", "br-2tnl"), Document("b", "lunch", "")]
SETTINGS = {
    "mode": "lexical",
    "search_engine": "",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "",
    "max_tokens": 64,
}


def arm(folder: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.Settings.model_validate({**SETTINGS, **changed}), folder / "cache")


def answers(engine: mail.Mail, folder: Path, *texts: str) -> list[Answer]:
    index = folder / "index"
    index.mkdir()
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        return [searcher.search(text, 5) for text in texts]


def test_words_need_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Embedder:
        raise ModelNotReady("no model may be opened here")

    monkeypatch.setattr("engines.vector.embedder.model", none)
    monkeypatch.setattr("engines.stacks.agent_mail.arm.embedder_of", none)
    (found,) = answers(arm(tmp_path), tmp_path, "deployment")
    assert [hit.doc_id for hit in found.hits] == ["a"]
    assert found.note == ""


@pytest.mark.parametrize("mode", ["semantic", "hybrid", "hybrid_rerank"])
def test_without_a_model_words_answer_and_the_arm_does_not_sign(tmp_path: Path, mode: str) -> None:
    index = tmp_path / "index"
    index.mkdir()
    engine = arm(tmp_path, mode=mode)
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        found = searcher.search("deployment", 5)
        assert [hit.doc_id for hit in found.hits] == ["a"]
        assert found.served_by != searcher.manifest.fingerprint
        assert "model" in found.note


def test_a_model_is_loaded_when_an_index_is_opened_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def counted(name: str, _: int) -> Embedder:
        loaded.append(name)
        return HashEmbedder(32)

    monkeypatch.setattr("engines.stacks.agent_mail.arm.embedder_of", counted)
    index = tmp_path / "index"
    index.mkdir()
    engine = arm(tmp_path, mode="hybrid", embedder="hash")
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        before = len(loaded)
        for text in ("deployment", "lunch", "br-2tnl"):
            assert searcher.search(text, 5).hits
        assert len(loaded) == before > 0


@pytest.mark.parametrize("budget_ms", [float("nan"), float("inf"), -1.0])
def test_a_budget_that_is_no_time_is_refused(tmp_path: Path, budget_ms: float) -> None:
    with pytest.raises(ValidationError, match="budget_ms"):
        arm(tmp_path, budget_ms=budget_ms)
