"""Stages that stacks tell of: the lists of their parts, the last one what they show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engines import registry as arms
from engines.ranking import fuse
from engines.stacks.agent_mail.arm import MailSearcher
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from engines.stacks.text.rerank import RerankSearcher
from harness.check.subject import DOCUMENTS, OBVIOUS
from harness.core.engine import Engine, Searcher, Stage, Staged
from tests.engines.stacks.test_mail_rerank import TOKENS
from tests.engines.stacks.test_mail_rerank import stack as mail_stack

TEXTS = (*OBVIOUS, "water that rises in the sea", "", "zzz")
NAMES = {
    "hash-hybrid": ["lexical", "semantic", "fused"],
    "hybrid-rerank": ["lexical", "semantic", "fused", "reranked"],
    "mail-hash": ["lexical", "semantic", "fused"],
    "mail-tantivy": ["lexical"],
}


def built(engine: Engine, folder: Path) -> Path:
    folder.mkdir()
    engine.build(DOCUMENTS, folder)
    return folder


def told(searcher: Searcher, text: str, k: int) -> tuple[Stage, ...]:
    assert isinstance(searcher, Staged)
    return searcher.stages(text, k, {})


@pytest.mark.parametrize("arm", NAMES)
def test_the_last_stage_is_what_is_shown(arm: str, tmp_path: Path) -> None:
    engine = arms.load(arm, tmp_path / "cache").engine
    with engine.open(built(engine, tmp_path / "index")) as searcher:
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
    with engine.open(built(engine, tmp_path / "index")) as searcher:
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
    with engine.open(built(engine, tmp_path / "index")) as searcher:
        assert isinstance(searcher, RerankSearcher)
        for text in OBVIOUS:
            stages = {stage.name: stage.hits for stage in told(searcher, text, 50)}
            assert stages["fused"] == searcher.fused.search(text, 50).hits
            assert {h.doc_id for h in stages["fused"]} == {h.doc_id for h in stages["reranked"]}
        alone = replace(searcher, fused=_Plain(searcher.fused))
        assert [stage.name for stage in alone.stages(OBVIOUS_TEXT, 5, {})] == ["reranked"]


def test_message_search_tells_only_of_what_answered(tmp_path: Path) -> None:
    engine = mail_stack(tmp_path, **TOKENS)
    with engine.open(built(engine, tmp_path / "index")) as searcher:
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
    with engine.open(built(engine, tmp_path / "index")) as searcher:
        assert isinstance(searcher, Staged)
        nobody = searcher.stages(OBVIOUS_TEXT, 5, {"sender_name": "nobody at all"})
        assert [stage.hits for stage in nobody] == [()] * len(nobody)


OBVIOUS_TEXT = next(iter(OBVIOUS))


class _Plain:
    """A searcher that tells of no stages."""

    def __init__(self, of: Searcher) -> None:
        self.manifest = of.manifest
        self.search = of.search
