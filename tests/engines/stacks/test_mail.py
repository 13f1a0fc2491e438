"""Message search as an arm: filters, broken parts, rerankers and stages."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.check.subject import DOCUMENTS as SUBJECT
from harness.check.subject import OBVIOUS
from harness.core.engine import Answer, Engine, Searcher, Stage, Staged, TakesParams
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import observe
from harness_engines import registry as arms
from harness_engines.ranking import fuse
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.pipeline import retrievers
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness_engines.stacks.text.rerank import RerankSearcher
from tests.engines.agent_mail.tools import SETTINGS
from tests.make import models as tiny_model
from tests.make.damage import flip

DOCUMENTS = [
    Document(
        "m1",
        "br-2tnl is ready",
        "please review",
        {
            "project_id": 1,
            "product_id": 5,
            "sender": "Ann",
            "recipients": "Bob,Cid",
            "importance": "high",
            "created_ts": 10,
        },
    ),
    Document(
        "m2",
        "review of the plan",
        "br 2tnl mentioned in words",
        {
            "project_id": 2,
            "product_id": 5,
            "sender": "Bob",
            "recipients": "Ann",
            "ack_required": True,
            "created_ts": 20,
        },
    ),
    Document(
        "m3",
        "lunch",
        "review nothing",
        {
            "project_id": 3,
            "sender": "Ann",
            "recipients": "Bob",
            "thread_id": "t9",
            "created_ts": 30,
        },
    ),
]


def stack(cache: Path, **changed: object) -> mail.Mail:
    return mail.Mail(mail.MailSettings.model_validate({**SETTINGS, **changed}), cache)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "index"
    folder.mkdir()
    stack(tmp_path).build(DOCUMENTS, folder)
    yield folder
    shutil.rmtree(folder)


def shown(engine: mail.Mail, index: Path, text: str, **params: object) -> list[str]:
    with engine.open(index) as searcher:
        assert isinstance(searcher, TakesParams)
        found = searcher.search_with(text, 10, params)  # type: ignore[arg-type]
        assert found.served_by == searcher.manifest.fingerprint
        return [hit.doc_id for hit in found.hits]


@pytest.mark.parametrize("switch", ["fts5", "tantivy"])
def test_an_identifier_finds_its_message_first_in_both_engines(tmp_path: Path, switch: str) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    engine = stack(tmp_path, search_engine=switch)
    engine.build(DOCUMENTS, folder)
    assert shown(engine, folder, "br-2tnl")[0] == "m1"


def test_a_query_is_asked_with_its_params(tmp_path: Path, index: Path) -> None:
    query = Query("q", "review", params={"project_id": 3})
    with stack(tmp_path).open(index) as searcher:
        with_params, without, unknown = (
            observe(searcher, replace(query, params=params), 5, 10**12).row
            for params in (query.params, {}, {"folder": "x"})
        )
    assert [hit.doc_id for hit in with_params.hits] == ["m3"]
    assert len(without.hits) == 3
    assert unknown.status is Status.FAILED
    assert "folder" in unknown.error


def test_another_setting_does_not_open_this_index(tmp_path: Path, index: Path) -> None:
    with pytest.raises(IndexNotReady), stack(tmp_path, mode="hybrid").open(index):
        pass
    with pytest.raises(ValueError, match="mine"), stack(tmp_path).open(index):
        raise ValueError("mine")


@pytest.mark.parametrize(
    ("mode", "said"), [("lexical", "tantivy"), ("hybrid", "vectors.amvi: its CRC-32 is")]
)
def test_a_broken_part_is_served_without_it_unsigned(
    index: Path, tmp_path: Path, mode: str, said: str
) -> None:
    engine = stack(tmp_path, mode=mode)
    shutil.rmtree(index)
    index.mkdir()
    engine.build(DOCUMENTS, index)
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
    changed = {"mode": "hybrid_rerank", "reranker": retrievers.LATE_INTERACTION}
    assert settings["mail-rerank"] == settings["mail-hybrid"].model_copy(update=changed)
    for name, one in settings.items():
        assert 10_000 <= one.budget_ms <= 60_000, name


RERANKED = [
    Document("m1", "salt", "salt salt salt"),
    Document("m2", "moon", "the sea and the moon"),
    Document("m3", "bread", "salt and water"),
    Document("m4", "water", "water the a bees"),
]
TOKENS: dict[str, Any] = {"embedder": "all-MiniLM-L6-v2", "reranker": retrievers.LATE_INTERACTION}
QUERY = "salt water bread"


def reranking(tmp_path: Path, **changed: object) -> mail.Mail:
    return stack(tmp_path / "cache", **{"mode": "hybrid_rerank", **changed})


def built(engine: mail.Mail, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    engine.build(RERANKED, folder)
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
    engine = reranking(tmp_path, reranker=str(folder), reranker_sha256=sha256)
    answer = asked(engine, built(engine, tmp_path), own=True)
    logits = {d.doc_id: tiny_model.logit(QUERY, f"{d.title} {d.text}") for d in RERANKED}
    assert {hit.doc_id: hit.raw_score for hit in answer.hits}.items() <= logits.items()
    assert answer.hits[0].doc_id == "m3"
    assert answer.note == ""
    assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)


def test_late_interaction_blends(tmp_path: Path) -> None:
    engine = reranking(tmp_path, **TOKENS)
    answer = asked(engine, built(engine, tmp_path), own=True)
    assert answer.hits[0].doc_id == "m3"
    assert max(hit.score for hit in answer.hits) <= 1.0
    assert answer == asked(engine, tmp_path / "index", own=True)


def test_without_a_reranker_hybrid_answers_and_the_arm_does_not_sign(tmp_path: Path) -> None:
    engine = reranking(tmp_path)
    answer = asked(engine, built(engine, tmp_path), own=False)
    hybrid = reranking(tmp_path, mode="hybrid")
    shutil.rmtree(tmp_path / "index")
    assert answer.hits == asked(hybrid, built(hybrid, tmp_path), own=True).hits
    assert "no model for reranking" in answer.note


@pytest.mark.parametrize("gone", ["model.onnx", "tokenizer.json", "damaged"])
def test_a_missing_cross_encoder_is_named(tmp_path: Path, folder: Path, gone: str) -> None:
    engine = reranking(tmp_path, reranker=str(folder))
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
        engine.build(RERANKED, tmp_path / "again")


@pytest.mark.parametrize("stated", [True, False])
def test_other_weights_are_named_or_another_arm(
    tmp_path: Path, folder: Path, *, stated: bool
) -> None:
    sha256 = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    engine = reranking(tmp_path, reranker=str(folder), reranker_sha256=sha256 if stated else "")
    index = built(engine, tmp_path)
    tiny_model.write(folder, outputs=2)
    if stated:
        assert f"stated is {sha256}" in asked(engine, index, own=False).note
    else:
        with pytest.raises(IndexNotReady, match="version"), engine.open(index):
            pass


def test_a_model_of_two_outputs_fails_at_the_question_and_hybrid_answers(tmp_path: Path) -> None:
    folder = tiny_model.write(tmp_path / "two", outputs=2)
    engine = reranking(tmp_path, reranker=str(folder))
    assert "one logit a pair" in asked(engine, built(engine, tmp_path), own=False).note


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_broken_token_vectors_are_named_and_hybrid_answers(tmp_path: Path, damage: str) -> None:
    engine = reranking(tmp_path, **TOKENS)
    index = built(engine, tmp_path)
    flip(index / retrievers.FILE)
    if damage == "gone":
        (index / retrievers.FILE).unlink()
    assert retrievers.FILE in asked(engine, index, own=False).note


def test_another_mode_needs_no_reranker(tmp_path: Path) -> None:
    engine = reranking(tmp_path, mode="lexical", reranker=str(tmp_path / "nowhere"))
    assert asked(engine, built(engine, tmp_path), own=True).note == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"reranker": retrievers.LATE_INTERACTION},
        {"reranker": retrievers.LATE_INTERACTION, "embedder": ""},
        {"reranker_sha256": "abc"},
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        reranking(tmp_path, **changed)


TEXTS = (*OBVIOUS, "water that rises in the sea", "", "zzz")
NAMES = {
    "hash-hybrid": ["lexical", "semantic", "fused"],
    "hybrid-rerank": ["lexical", "semantic", "fused", "reranked"],
    "mail-hash": ["lexical", "semantic", "fused"],
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


@pytest.mark.parametrize("arm", ["hybrid-rrf", "mail-hash"])
def test_the_legs_make_the_fusion(arm: str, tmp_path: Path) -> None:
    engine = arms.load(arm, tmp_path / "cache").engine
    with engine.open(standing(engine, tmp_path / "index")) as searcher:
        moved = 0
        for text in OBVIOUS:
            words, vectors, fused = told(searcher, text, 100)
            legs = {s.name: [hit.doc_id for hit in s.hits] for s in (words, vectors)}
            anew = fuse(legs, dict.fromkeys(legs, 1.0), rrf_k=60, k=100)
            assert {hit.doc_id for hit in anew} == {hit.doc_id for hit in fused.hits}
            assert [hit.score for hit in anew] == [hit.score for hit in fused.hits]
            moved += legs["lexical"] != [hit.doc_id for hit in fused.hits]
        assert moved


def test_a_reranker_orders_what_was_fused(tmp_path: Path) -> None:
    engine = arms.load("hybrid-rerank", tmp_path / "cache").engine
    with engine.open(standing(engine, tmp_path / "index")) as searcher:
        assert isinstance(searcher, RerankSearcher)
        for text in OBVIOUS:
            stages = {stage.name: stage.hits for stage in told(searcher, text, 50)}
            assert stages["fused"] == searcher.fused.search(text, 50).hits
            assert {h.doc_id for h in stages["fused"]} == {h.doc_id for h in stages["reranked"]}
        alone = replace(searcher, fused=_Plain(searcher.fused))
        assert [stage.name for stage in alone.stages(OBVIOUS_TEXT, 5, {})] == ["reranked"]


def test_message_search_tells_only_of_what_answered(tmp_path: Path) -> None:
    engine = reranking(tmp_path, **TOKENS)
    with engine.open(standing(engine, tmp_path / "index")) as searcher:
        assert isinstance(searcher, MailSearcher)
        names = [stage.name for stage in searcher.stages(OBVIOUS_TEXT, 5, {})]
        assert names == NAMES["hybrid-rerank"]
        for switch, left in (
            (KillSwitch.FTS5, ["lexical"]),
            (KillSwitch.HYBRID, ["semantic", "fused", "reranked"]),
        ):
            switched = replace(searcher, service=replace(searcher.service, switch=switch))
            stages = switched.stages(OBVIOUS_TEXT, 5, {})
            assert [stage.name for stage in stages] == left
            assert stages[-1].hits == switched.search(OBVIOUS_TEXT, 5).hits


def test_filters_count_in_every_stage(tmp_path: Path) -> None:
    engine = arms.load("mail-hash", tmp_path / "cache").engine
    with engine.open(standing(engine, tmp_path / "index")) as searcher:
        assert isinstance(searcher, Staged)
        nobody = searcher.stages(OBVIOUS_TEXT, 5, {"sender_name": "nobody at all"})
        assert [stage.hits for stage in nobody] == [()] * len(nobody)


OBVIOUS_TEXT = next(iter(OBVIOUS))


class _Plain:
    """A searcher that tells of no stages."""

    def __init__(self, of: Searcher) -> None:
        self.manifest = of.manifest
        self.search = of.search
