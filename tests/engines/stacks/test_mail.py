"""Message search as an arm: filters, broken parts, rerankers and stages."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS as SUBJECT
from harness.check.subject import OBVIOUS
from harness.core.engine import Answer, Engine, Searcher, Stage, Staged
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail import arm as mail
from tests.engines.agent_mail.whole import SETTINGS
from tests.make import models as tiny_model
from tests.make.damage import flip

DOCUMENTS = [
    Document("m1", "br-2tnl is ready", "please review", {"project_id": 1, "sender": "Ann"}),
    Document("m2", "review of the plan", "br 2tnl mentioned in words", {"project_id": 2}),
    Document("m3", "lunch", "review nothing", {"project_id": 3, "thread_id": "t9"}),
]


def stack(cache: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.MailSettings.model_validate({**SETTINGS, **changed}), cache)


def built(engine: mail.Mail, tmp_path: Path, documents: Sequence[Document] = DOCUMENTS) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    engine.build(documents, folder)
    return folder


@pytest.mark.parametrize(
    ("mode", "said"), [("lexical", "tantivy"), ("hybrid", "vectors.amvi: its CRC-32 is")]
)
def test_a_broken_part_is_served_without_it_unsigned(tmp_path: Path, mode: str, said: str) -> None:
    engine = stack(tmp_path, mode=mode)
    index = built(engine, tmp_path)
    if mode == "lexical":
        shutil.rmtree(index / mail.TANTIVY)
        (index / mail.TANTIVY).write_text("not a folder")
    else:
        flip(index / mail.VECTORS)
    with engine.open(index) as searcher:
        answer = searcher.search("review", 5)
        assert len(answer.hits) == 3
        assert answer.served_by != searcher.manifest.fingerprint
        assert said in answer.note


def test_the_mail_arms_differ_in_what_answers_first(tmp_path: Path) -> None:
    engines = {
        path.stem: arms.load(path.stem, tmp_path).engine
        for path in sorted(arms.FOLDER.glob("mail-*.toml"))
    }
    assert set(engines) >= {"mail-fts5", "mail-tantivy", "mail-hybrid", "mail-hash"}
    settings = {name: one.settings for name, one in engines.items() if isinstance(one, mail.Mail)}
    assert settings.keys() == engines.keys()
    assert settings["mail-fts5"].search_engine == "fts5"
    assert settings["mail-hybrid"].mode == "hybrid"
    changed = {"mode": "hybrid_rerank", "reranker": mail.LATE_INTERACTION}
    assert settings["mail-rerank"] == settings["mail-hybrid"].model_copy(update=changed)
    for name, one in settings.items():
        assert 10_000 <= one.budget_ms <= 60_000, name


RERANKED = [
    Document("m1", "salt", "salt salt salt"),
    Document("m2", "moon", "the sea and the moon"),
    Document("m3", "bread", "salt and water"),
    Document("m4", "water", "water the a bees"),
]
QUERY = "salt water bread"


def reranking(tmp_path: Path, **changed: object) -> mail.Mail:
    return stack(tmp_path / "cache", **{"mode": "hybrid_rerank", **changed})


def asked(engine: mail.Mail, index: Path, *, own: bool) -> Answer:
    """Ask, and check whether the arm signs."""
    with engine.open(index) as searcher:
        answer = searcher.search(QUERY, 10)
        assert (answer.served_by == searcher.manifest.fingerprint) is own
        return answer


def test_a_cross_encoder_replaces_the_scores_of_the_window(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "cross-encoder")
    sha256 = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    engine = reranking(tmp_path, reranker=str(folder), reranker_sha256=sha256)
    answer = asked(engine, built(engine, tmp_path, RERANKED), own=True)
    logits = {d.doc_id: tiny_model.logit(QUERY, f"{d.title} {d.text}") for d in RERANKED}
    assert {hit.doc_id: hit.raw_score for hit in answer.hits}.items() <= logits.items()
    assert answer.hits[0].doc_id == "m3"
    assert answer.note == ""
    assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)


def test_without_a_reranker_hybrid_answers_and_the_arm_does_not_sign(tmp_path: Path) -> None:
    engine = reranking(tmp_path)
    answer = asked(engine, built(engine, tmp_path, RERANKED), own=False)
    hybrid = reranking(tmp_path, mode="hybrid")
    shutil.rmtree(tmp_path / "index")
    assert answer.hits == asked(hybrid, built(hybrid, tmp_path, RERANKED), own=True).hits
    assert "no model for reranking" in answer.note


TEXTS = (*OBVIOUS, "water that rises in the sea", "", "zzz")
NAMES = {
    "hash-hybrid": ["lexical", "semantic", "fused"],
    "hybrid-rerank": ["lexical", "semantic", "fused", "reranked"],
    "mail-hash": ["lexical", "semantic", "fused"],
    "mail-rerank": ["lexical", "semantic", "fused", "reranked"],
    "mail-tantivy": ["lexical"],
}


def standing(engine: Engine, folder: Path) -> Path:
    folder.mkdir()
    engine.build(SUBJECT, folder)
    return folder


def told(searcher: Searcher, text: str, k: int) -> tuple[Stage, ...]:
    assert isinstance(searcher, Staged)
    return searcher.stages(text, k, {})


@pytest.mark.parametrize("arm", NAMES)
def test_the_last_stage_is_what_is_shown(arm: str, tmp_path: Path) -> None:
    engine = arms.load(arm, tmp_path / "cache").engine
    with engine.open(standing(engine, tmp_path / "index")) as searcher:
        seen = 0
        for text in TEXTS:
            for k in (1, 3, 50):
                stages = told(searcher, text, k)
                assert stages[-1].hits == searcher.search(text, k).hits
                assert all(len(stage.hits) <= k for stage in stages)
                seen += [stage.name for stage in stages] == NAMES[arm]
                assert [s.name for s in stages if s.beside] in ([], ["semantic"])
        assert seen >= 3 * len(OBVIOUS)
