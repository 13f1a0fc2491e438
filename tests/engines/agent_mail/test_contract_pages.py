"""Pages over real engines: when there is a next one, and what becomes of a cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from engines.stacks.agent_mail.contract import (
    Event,
    Importance,
    Message,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from engines.stacks.agent_mail.pipeline.plan import (
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail import changing
from tests.make.mail.messages import some_mail

pytestmark = pytest.mark.slow
MAIL = some_mail(54, 150)
TEXT = "deployment review br-2tnl"
WAYS = {
    CursorEngine.LIKE: (SearchMode.LEXICAL, None),
    CursorEngine.FTS5: (SearchMode.LEXICAL, KillSwitch.FTS5),
    CursorEngine.TANTIVY: (SearchMode.LEXICAL, None),
    CursorEngine.SEMANTIC: (SearchMode.SEMANTIC, None),
    CursorEngine.HYBRID: (SearchMode.HYBRID, None),
    CursorEngine.HYBRID_RERANK: (SearchMode.HYBRID_RERANK, None),
}
EVERY = pytest.mark.parametrize("engine", WAYS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    build(made, MAIL.messages)
    return made


@pytest.fixture
def mail(folder: Path) -> Iterator[Whole]:
    with whole(folder) as made:
        yield made


def asked(mail: Whole, engine: CursorEngine, **more: object) -> tuple[Whole, SearchQuery]:
    mode, switch = WAYS[engine]
    text = "re" if engine is CursorEngine.LIKE else TEXT
    served = (
        mail.without(FallbackTier.TANTIVY, FallbackTier.FTS5)
        if engine is CursorEngine.LIKE
        else mail
    )
    return served.under(switch), SearchQuery(text, mode=mode, **more)  # type: ignore[arg-type]


def walk(mail: Whole, query: SearchQuery) -> list[list[int]]:
    pages, cursor = [], query.cursor
    while True:
        found = mail.ask(replace(query, cursor=cursor))
        assert not found.explain.cursor_invalidated
        pages.append([hit.message_id for hit in found.hits])
        if found.next_cursor is None:
            return pages
        assert len(found.hits) == query.effective_limit
        cursor = found.next_cursor


@EVERY
@pytest.mark.parametrize("ranking", RankingMode)
def test_pages_follow_each_other_as_one_list(
    mail: Whole, engine: CursorEngine, ranking: RankingMode
) -> None:
    served, query = asked(mail, engine, limit=1_000, ranking=ranking)
    whole_list = served.ids(query)
    for limit in (1, 7, len(whole_list)):
        pages = walk(served, replace(query, limit=limit))
        assert [at for page in pages for at in page] == whole_list
        assert all(len(page) == limit for page in pages[:-1])


@EVERY
def test_a_short_page_is_the_last_and_a_full_one_may_not_be(
    mail: Whole, engine: CursorEngine
) -> None:
    served, query = asked(mail, engine, limit=1_000)
    total = len(served.ids(query))
    assert 10 < total < 1_000
    assert served.ask(query).next_cursor is None
    for limit in (1, total - 1, total):
        assert served.ask(replace(query, limit=limit)).next_cursor is not None
    assert served.ask(replace(query, limit=total + 1)).next_cursor is None


@EVERY
def test_a_token_says_score_id_and_engine(mail: Whole, engine: CursorEngine) -> None:
    served, query = asked(mail, engine, limit=3)
    found = served.ask(query)
    assert found.next_cursor is not None
    own = rf"s[0-9a-f]{{16}}:i-?\d+:e{engine}"
    assert re.fullmatch(rf"{own}:q[0-9a-f]{{16}}:x[A-Za-z0-9_-]+", found.next_cursor)
    last, read = found.hits[-1], SearchCursor.decode(found.next_cursor)
    assert read is not None
    assert (read.score, read.message_id, read.engine) == (last.score, last.message_id, engine)
    assert read.seen == {hit.message_id for hit in found.hits}


@EVERY
def test_a_token_of_v2_goes_on_where_it_ended(mail: Whole, engine: CursorEngine) -> None:
    served, query = asked(mail, engine, limit=3)
    token = served.ask(query).next_cursor
    assert token is not None
    old = token.rpartition(":e")[0]
    read = SearchCursor.decode(token)
    assert read is not None
    assert SearchCursor.decode(old) == SearchCursor(read.score, read.message_id)
    there = served.ask(replace(query, cursor=old))
    assert there.hits == served.ask(replace(query, cursor=token)).hits
    assert not there.explain.cursor_invalidated


@pytest.mark.parametrize(("made_by", "read_by"), [*permutations(WAYS, 2)])
def test_another_engines_token_starts_at_page_one(
    mail: Whole, made_by: CursorEngine, read_by: CursorEngine
) -> None:
    maker, query = asked(mail, made_by, limit=3)
    token = maker.ask(query).next_cursor
    reader, other = asked(mail, read_by, limit=3)
    mail.log.events.clear()
    found = reader.ask(replace(other, cursor=token))
    assert found.hits == reader.ask(other).hits
    assert found.explain.cursor_invalidated
    told = [payload for event, payload in mail.log.events if event is Event.CURSOR_INVALIDATED]
    assert told == [{"cursor_engine": made_by, "current_engine": read_by}]


@pytest.mark.parametrize(
    "other",
    [
        {"text": "deployment"},
        {"ranking": RankingMode.RECENCY},
        {"project_id": 1},
        {"min_score": 0.1},
        {"importance": (Importance.HIGH, Importance.LOW)},
    ],
)
def test_another_querys_token_starts_at_page_one(mail: Whole, other: dict[str, object]) -> None:
    served, query = asked(mail, CursorEngine.TANTIVY, limit=3)
    token = served.ask(query).next_cursor
    changed = replace(query, **other)  # type: ignore[arg-type]
    found = served.ask(replace(changed, cursor=token))
    assert found.explain.cursor_invalidated
    assert found.hits == served.ask(changed).hits
    assert not served.ask(replace(query, cursor=token, limit=7)).explain.cursor_invalidated


def test_an_engine_that_failed_invalidates_no_cursor_of_the_one_that_answers(mail: Whole) -> None:
    served, query = asked(mail, CursorEngine.LIKE, limit=3)
    mail.log.events.clear()
    walk(served, query)
    assert Event.CURSOR_INVALIDATED not in {event for event, _ in mail.log.events}


@EVERY
def test_messages_that_are_deleted_between_pages_are_passed_over(
    engine: CursorEngine, tmp_path: Path
) -> None:
    """The cursor names one that is gone, as does the beginning of the next page."""
    build(tmp_path, MAIL.messages)
    with whole(tmp_path) as mail:
        served, query = asked(mail, engine, limit=4)
        whole_list = served.ids(replace(query, limit=1_000))
        first = served.ask(query)
        for gone in whole_list[3:5]:
            changing.delete(mail.store, gone)
        rest = [
            at for page in walk(served, replace(query, cursor=first.next_cursor)) for at in page
        ]
        assert sorted(rest) == sorted(whole_list[5:]) != []
        if engine in {CursorEngine.LIKE, CursorEngine.SEMANTIC}:
            assert rest == whole_list[5:]


@EVERY
@pytest.mark.parametrize(("at", "gone"), [(4, 1), (4, 3), (19, 1), (19, 3)])
def test_no_survivor_is_lost_where_the_message_of_the_cursor_is_deleted(
    engine: CursorEngine, at: int, gone: int, tmp_path: Path
) -> None:
    """An index of vectors still holds the message, and not where it stood."""
    build(tmp_path, MAIL.messages)
    with whole(tmp_path) as mail:
        served, query = asked(mail, engine, limit=at + 1)
        whole_list = served.ids(replace(query, limit=1_000))
        first = served.ask(query)
        shown = [hit.message_id for hit in first.hits]
        mail.tantivy.update_incremental([changing.delete(mail.store, one) for one in shown[-gone:]])
        rest = walk(served, replace(query, cursor=first.next_cursor))
        seen = [*shown, *(one for page in rest for one in page)]
        assert sorted(seen) == sorted(whole_list)


@EVERY
def test_scope_shortens_no_page(mail: Whole, engine: CursorEngine) -> None:
    served, query = asked(mail, engine, limit=5)
    whole_list = served.ids(replace(query, limit=1_000))
    allowed = set(whole_list[::9])

    def verdict(message: Message) -> Visibility:
        return Visibility.ALLOW if message.message_id in allowed else Visibility.DENY

    found = served.ask(query, Scope("few", verdict, audited=True))
    assert [hit.message_id for hit in found.hits] == whole_list[::9][:5]
    assert found.explain.denied_count == whole_list.index(whole_list[::9][4]) + 1 - 5
