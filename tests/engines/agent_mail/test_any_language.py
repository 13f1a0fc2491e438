"""In any language both engines of message search find the same messages for the same words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.arm import MailSearcher
from engines.stacks.agent_mail.contract import Filters, MailEngine, RankingMode
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from tests.engines.agent_mail.mcp_tools.conftest import SETTINGS
from tests.engines.stacks.test_any_language import DOCUMENTS, has, piece
from tests.thinned import examples

ENGINES = (FallbackTier.FTS5, FallbackTier.TANTIVY)
Engines = Mapping[FallbackTier, MailEngine]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    folder = tmp_path_factory.mktemp("index")
    arm = mail.Mail(mail.Settings.model_validate({**SETTINGS, "embedder": ""}), folder / "cache")
    arm.build(DOCUMENTS, folder)
    with arm.open(folder) as searcher:
        assert isinstance(searcher, MailSearcher)
        yield searcher.service.tiers.lexical


def found(engines: Engines, text: str) -> frozenset[str]:
    """Ask both engines, and see that both find the same."""
    by_engine = {
        name: frozenset(
            DOCUMENTS[one.message_id - 1].doc_id
            for one in engines[name].search(text, Filters(), RankingMode.RELEVANCE, 999).candidates
        )
        for name in ENGINES
    }
    assert len({*by_engine.values()}) == 1, (text, by_engine)
    return by_engine[FallbackTier.FTS5]


@settings(max_examples=examples(500), deadline=None)
@given(text=st.lists(piece, min_size=1, max_size=4).map(" ".join))
def test_both_engines_find_the_same_however_it_is_composed(opened: Engines, text: str) -> None:
    assert len({found(opened, unicodedata.normalize(kind, text)) for kind in ("NFC", "NFD")}) == 1


@pytest.mark.parametrize(
    ("text", "same"),
    [("cafe", "CAFÉ"), ("strasse", "Straße"), ("ёлка", "Елка"), ("ガイド", "ｶﾞｲﾄﾞ"), ("👍", "👍🏿")],
)
def test_what_looks_alike_is_found_alike(opened: Engines, text: str, same: str) -> None:
    assert found(opened, text) == found(opened, same) != frozenset()


@pytest.mark.parametrize("text", ["東京", "大学", "น้ำ", "한국", "京都"])
def test_a_part_of_a_run_is_found_and_refused(opened: Engines, text: str) -> None:
    assert found(opened, f"+{text}") == has(text) != frozenset()
    assert found(opened, f"-{text}") == {d.doc_id for d in DOCUMENTS} - has(text)


@pytest.mark.parametrize(
    ("text", "whole"), [("東京大*", "東京大学"), ("еЛк*", "елка"), ("gui*", "")]
)
def test_a_beginning_is_found_in_any_script(opened: Engines, text: str, whole: str) -> None:
    assert found(opened, text) == (found(opened, f"+{whole}") if whole else frozenset())


def test_an_edit_by_another_program_is_found_by_what_it_says_now(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("edited")
    arm = mail.Mail(mail.Settings.model_validate({**SETTINGS, "embedder": ""}), folder / "cache")
    arm.build(DOCUMENTS, folder)
    with ingest.opened(folder / mail.STORE) as box, arm.open(folder) as searcher:
        assert isinstance(searcher, MailSearcher)
        engine = searcher.service.tiers.lexical[FallbackTier.FTS5]

        def ids(text: str) -> set[int]:
            told = engine.search(text, Filters(), RankingMode.RELEVANCE, 999)
            return {one.message_id for one in told.candidates}

        box.edit(1, subject="更新", body="café")
        assert ids("更新") == {1}
        assert 1 in ids("+cafe")
        with box.store.writing() as db:
            db.execute("UPDATE messages SET subject = 'zeppelin', body = '' WHERE id = 1")
        assert ids("更新") == set()
        assert ids("zeppelin") == {1}
        box.edit(1, subject="cafe\u0301", body="")
        box.edit(1, subject="caf\u00e9")
        assert 1 in ids("+cafe")
        box.delete(1)
        assert ids("zeppelin") == set()
