"""Every fault in every mode: the question is served, and explain names cause and fallback."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail.arm import MailSearcher
from engines.stacks.agent_mail.contract import RankingMode, SearchMode, SearchQuery, SearchResponse
from engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier, KillSwitch
from engines.stacks.agent_mail.service import MailSearch
from tests.engines.agent_mail import faults_case
from tests.engines.agent_mail.faults_case import (
    BOTH,
    CHAINS,
    DOCUMENTS,
    EITHER,
    FAULTS,
    LONG,
    NEEDS,
    TEXT,
    Fault,
    Scores,
)

SETTINGS = mail.Settings(
    mode="hybrid",
    search_engine="",
    subject_weight=2,
    identifiers_weight=4,
    embedder="hash",
    max_tokens=64,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an index that nothing is wrong with."""
    folder = tmp_path_factory.mktemp("whole") / "index"
    folder.mkdir()
    stack(folder.parent).build(DOCUMENTS, folder)
    return folder


@pytest.fixture
def index(whole: Path, tmp_path: Path) -> Path:
    """Copy it, to spoil."""
    return Path(shutil.copytree(whole, tmp_path / "index"))


def stack(cache: Path) -> mail.Mail:
    return mail.Mail(SETTINGS, cache)


@contextmanager
def opened(index: Path) -> Iterator[MailSearch]:
    """Open what is there, as the arm does, with a reranker."""
    with stack(index.parent).open(index) as searcher:
        assert isinstance(searcher, MailSearcher)
        service = searcher.service
        yield replace(service, tiers=replace(service.tiers, reranker=Scores()))


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Read what was logged: each event and its reason."""
    lines = [json.loads(r.message) for r in caplog.records if r.name == "engines.mail"]
    return [(line["event"], line.get("reason", "")) for line in lines]


def check(
    found: SearchResponse, mode: SearchMode, fault: Fault, chain: tuple[FallbackTier, ...]
) -> None:
    """Hold an answer against what the fault leaves of a chain."""
    by = next(tier for tier in chain if not NEEDS[tier] & fault.breaks)
    explain, ids = found.explain, [hit.message_id for hit in found.hits]
    assert (explain.engine, found.served_by) == (by, by)
    assert (explain.requested_mode, explain.actual_mode) == (mode, MODE_OF[by])
    assert set(ids) >= (BOTH if by is FallbackTier.LIKE else EITHER)
    assert {ids[0]} == BOTH
    if by in {FallbackTier.TANTIVY, FallbackTier.FTS5}:
        assert set(ids) == EITHER
    fell = by is not chain[0]
    assert found.degraded == fell
    assert explain.mode_downgraded == (MODE_OF[by] is not mode)
    assert (explain.downgrade_reason or explain.note) == explain.note
    if fell:
        assert re.search(f"{fault.because}.*; answered by {by}$", explain.note, re.DOTALL)
    else:
        assert explain.note == ""


@pytest.mark.slow
@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("name", FAULTS)
def test_every_question_is_served_and_told_how(
    index: Path, name: str, mode: SearchMode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engines.mail")
    fault = FAULTS[name]
    fault.spoil(index)
    with opened(index) as service:
        found = fault.swap(service).search(SearchQuery(TEXT, mode=mode, limit=100))
    check(found, mode, fault, CHAINS[mode])
    downgraded = found.explain.mode_downgraded
    name_of = "search.mode.downgrade" if downgraded else "search.engine.fallback"
    expected = [(name_of, found.explain.note)] if found.degraded else []
    assert events(caplog) == expected


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE messages_fts",
        "UPDATE messages_fts_data SET block = x'00ff' WHERE id > 10",
        "DELETE FROM messages_fts_data",
    ],
)
def test_without_fts5_the_switch_to_it_ends_at_like(
    index: Path, mode: SearchMode, statement: str
) -> None:
    faults_case.sql(index, statement)
    with opened(index) as service:
        forced = replace(service, switch=KillSwitch.FTS5)
        found = forced.search(SearchQuery(TEXT, mode=mode, limit=100))
    assert [hit.message_id for hit in found.hits] == sorted(BOTH)
    assert (found.explain.engine, found.degraded) == ("like", True)
    assert re.search("fts5: FTS5 index: .*; answered by like$", found.explain.note)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("failing", [faults_case.no_such_model, faults_case.other_model])
def test_without_its_model_the_service_opens_and_serves_by_words(
    index: Path, mode: SearchMode, failing: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    because = "is not installed" if failing is faults_case.no_such_model else "its SHA-256 is"
    monkeypatch.setattr(mail, "embedder_of", failing)
    with opened(index) as service:
        found = service.search(SearchQuery(TEXT, mode=mode, limit=100))
    check(found, mode, Fault(frozenset({"vectors"}), because), CHAINS[mode])


@pytest.mark.parametrize("mode", SearchMode)
def test_a_message_that_cannot_be_read_is_left_out_and_the_others_are_shown(
    index: Path, mode: SearchMode
) -> None:
    faults_case.lose_a_page(index)
    with opened(index) as service:
        found = service.search(SearchQuery(TEXT, mode=mode, limit=100))
        by_time = service.search(
            SearchQuery(TEXT, mode=mode, limit=100, ranking=RankingMode.RECENCY)
        )
    for one in (found, by_time):
        ids = {hit.message_id for hit in one.hits}
        assert EITHER - {LONG} <= ids
        assert LONG not in ids
        assert (one.unread, one.degraded) == (1, True)
        assert one.served_by == CHAINS[mode][0]
        assert "1 messages cannot be read (message store: " in one.explain.note


@pytest.mark.parametrize("mode", SearchMode)
def test_text_that_is_no_text_any_more_is_a_message_that_cannot_be_read(
    index: Path, mode: SearchMode
) -> None:
    faults_case.sql(index, "UPDATE messages SET subject = CAST(x'ff' AS TEXT) WHERE id = 10")
    with opened(index) as service:
        found = service.search(SearchQuery(TEXT, mode=mode, limit=100))
    assert {hit.message_id for hit in found.hits} >= EITHER - {10}
    assert found.unread == 1
    assert "UTF-8" in found.explain.note


@pytest.mark.parametrize("mode", SearchMode)
def test_without_the_messages_the_answer_is_empty_and_no_error(
    index: Path, mode: SearchMode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engines.mail")
    with opened(index) as service:
        gone = ("DROP TRIGGER agents_renamed", "DROP TABLE recipients")
        faults_case.sql(index, *gone, "ALTER TABLE messages RENAME TO gone")
        for asked in (SearchQuery(TEXT, mode=mode), SearchQuery(TEXT, mode=mode, product_id=5)):
            found = service.search(asked)
            assert (found.hits, found.next_cursor, found.degraded) == ((), None, True)
            assert "nothing could answer" in found.explain.note
            assert "no such table: messages; nothing could answer" in found.explain.note
    assert all("nothing could answer" in reason for _, reason in events(caplog))


def test_a_product_whose_projects_cannot_be_read_shows_nothing(index: Path) -> None:
    with opened(index) as service:
        assert service.search(SearchQuery(TEXT, product_id=5)).hits
        faults_case.sql(index, "DROP TABLE product_projects")
        found = service.search(SearchQuery(TEXT, product_id=5))
    assert found.hits == ()
    assert found.explain.facets_applied == ("product_id",)
    assert "the projects of product 5 are not known: " in found.explain.note


def test_a_log_that_fails_keeps_nobody_from_an_answer(index: Path) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    shutil.rmtree(index / mail.TANTIVY)
    with opened(index) as service:
        found = replace(service, emit=full).search(SearchQuery(TEXT, mode=SearchMode.HYBRID))
    assert {hit.message_id for hit in found.hits} == EITHER
