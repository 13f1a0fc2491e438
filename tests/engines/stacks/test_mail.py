"""Message search as an arm: filters, broken parts, rerankers and stages."""

import hashlib
import shutil
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS as SUBJECT
from harness.check.subject import OBVIOUS
from harness.core.engine import Answer, Staged
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail import arm as mail
from tests.make import models as tiny_model
from tests.make.damage import flip
from tests.make.mail_engines import built_live, served


@pytest.mark.parametrize(
    ("mode", "said"), [("lexical", "tantivy"), ("hybrid", "vectors.amvi: its CRC-32 is")]
)
def test_a_broken_part_is_served_without_it_unsigned(tmp_path: Path, mode: str, said: str) -> None:
    index = built_live(tmp_path, mode=mode)
    if mode == "lexical":
        shutil.rmtree(index / mail.TANTIVY)
        (index / mail.TANTIVY).write_text("not a folder")
    else:
        flip(index / mail.VECTORS)
    with served(tmp_path, mode=mode) as searcher:
        answer = searcher.search("review", 9)
        assert len(answer.hits) == 5
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


def asked(folder: Path, *, own: bool, mode: str = "hybrid_rerank", **changed: object) -> Answer:
    """Ask an arm over the documents above, and check whether it signs."""
    built_live(folder, RERANKED, mode=mode, **changed)
    with served(folder, mode=mode, **changed) as searcher:
        answer = searcher.search(QUERY, 10)
        assert (answer.served_by == searcher.manifest.fingerprint) is own
        return answer


def test_a_cross_encoder_replaces_the_scores_of_the_window(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "cross-encoder")
    sha256 = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    answer = asked(tmp_path, own=True, reranker=str(folder), reranker_sha256=sha256)
    logits = {d.doc_id: tiny_model.logit(QUERY, f"{d.title} {d.text}") for d in RERANKED}
    assert {hit.doc_id: hit.raw_score for hit in answer.hits}.items() <= logits.items()
    assert answer.hits[0].doc_id == "m3"
    assert answer.note == ""
    assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)


def test_without_a_reranker_hybrid_answers_and_the_arm_does_not_sign(tmp_path: Path) -> None:
    answer = asked(tmp_path / "reranking", own=False)
    assert answer.hits == asked(tmp_path / "hybrid", own=True, mode="hybrid").hits
    assert "no model for reranking" in answer.note


TEXTS = (*OBVIOUS, "water that rises in the sea", "", "zzz")
NAMES = {
    "hash-hybrid": ["lexical", "semantic", "fused"],
    "hybrid-rerank": ["lexical", "semantic", "fused", "reranked"],
    "mail-hash": ["lexical", "semantic", "fused"],
    "mail-rerank": ["lexical", "semantic", "fused", "reranked"],
    "mail-tantivy": ["lexical"],
}


@pytest.mark.parametrize("arm", NAMES)
def test_the_last_stage_is_what_is_shown(arm: str, tmp_path: Path) -> None:
    engine = arms.load(arm, tmp_path / "cache").engine
    index = tmp_path / "index"
    index.mkdir()
    engine.build(SUBJECT, index)
    with engine.open(index) as searcher:
        assert isinstance(searcher, Staged)
        seen = 0
        for text in TEXTS:
            for k in (1, 3, 50):
                stages = searcher.stages(text, k, {})
                assert stages[-1].hits == searcher.search(text, k).hits
                assert all(len(stage.hits) <= k for stage in stages)
                seen += [stage.name for stage in stages] == NAMES[arm]
                assert [s.name for s in stages if s.beside] in ([], ["semantic"])
        assert seen >= 3 * len(OBVIOUS)
