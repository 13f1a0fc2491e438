"""The contract of pages: one list, whatever is asked, seen or changed between them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from harness_engines.stacks.agent_mail import arm as pages_mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.contract import (
    Event,
    Importance,
    Message,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest
from harness_engines.stacks.agent_mail.pipeline.plan import (
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from tests.engines.agent_mail.whole import MAIL, ByLength, Whole, build, whole
from tests.make import mail_changing as changing
from tests.make.mail_engines import built_live as pages_built
from tests.make.mail_engines import served

pytestmark = pytest.mark.slow
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


def asked(mail: Whole, engine: CursorEngine, **more: object) -> tuple[Whole, SearchQuery]:
    mode, switch = WAYS[engine]
    like = engine is CursorEngine.LIKE
    served = mail.without(FallbackTier.TANTIVY, FallbackTier.FTS5) if like else mail
    query = SearchQuery("re" if like else TEXT, mode=mode, **more)  # type: ignore[arg-type]
    return served.under(switch), query


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
def test_pages_form_one_list(post: Whole, engine: CursorEngine, ranking: RankingMode) -> None:
    served, query = asked(post, engine, limit=1_000, ranking=ranking)
    whole_list = served.ids(query)
    for limit in (1, 7, len(whole_list)):
        pages = walk(served, replace(query, limit=limit))
        assert [at for page in pages for at in page] == whole_list
        assert all(len(page) == limit for page in pages[:-1])


@EVERY
def test_a_short_page_is_the_last(post: Whole, engine: CursorEngine) -> None:
    served, query = asked(post, engine, limit=1_000)
    total = len(served.ids(query))
    assert 10 < total < 1_000
    assert served.ask(query).next_cursor is None
    for limit in (1, total - 1, total):
        assert served.ask(replace(query, limit=limit)).next_cursor is not None
    assert served.ask(replace(query, limit=total + 1)).next_cursor is None
    served, query = asked(post, engine, limit=5)
    whole_list = served.ids(replace(query, limit=1_000))
    allowed = set(whole_list[::9])

    def verdict(message: Message) -> Visibility:
        return Visibility.ALLOW if message.message_id in allowed else Visibility.DENY

    found = served.ask(query, Scope("few", verdict, audited=True))
    assert [hit.message_id for hit in found.hits] == whole_list[::9][:5]
    assert found.explain.denied_count == whole_list.index(whole_list[::9][4]) + 1 - 5


@EVERY
def test_a_token_says_score_id_and_engine(post: Whole, engine: CursorEngine) -> None:
    served, query = asked(post, engine, limit=3)
    found = served.ask(query)
    token, last = found.next_cursor, found.hits[-1]
    assert token is not None
    own = rf"s[0-9a-f]{{16}}:i-?\d+:e{engine}"
    assert re.fullmatch(rf"{own}:q[0-9a-f]{{16}}:x[A-Za-z0-9_-]+", token)
    read = SearchCursor.decode(token)
    assert read is not None
    assert (read.score, read.message_id, read.engine) == (last.score, last.message_id, engine)
    assert read.seen == {hit.message_id for hit in found.hits}
    old = token.rpartition(":e")[0]
    assert SearchCursor.decode(old) == SearchCursor(read.score, read.message_id)
    there = served.ask(replace(query, cursor=old))
    assert there.hits == served.ask(replace(query, cursor=token)).hits
    assert not there.explain.cursor_invalidated


@pytest.mark.parametrize(("made_by", "read_by"), [*permutations(WAYS, 2)])
def test_a_foreign_token_restarts(
    post: Whole, made_by: CursorEngine, read_by: CursorEngine
) -> None:
    maker, query = asked(post, made_by, limit=3)
    token = maker.ask(query).next_cursor
    reader, other = asked(post, read_by, limit=3)
    post.log.events.clear()
    found = reader.ask(replace(other, cursor=token))
    assert found.hits == reader.ask(other).hits
    assert found.explain.cursor_invalidated
    told = [payload for event, payload in post.log.events if event is Event.CURSOR_INVALIDATED]
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
def test_another_querys_token_starts_at_page_one(post: Whole, other: dict[str, object]) -> None:
    served, query = asked(post, CursorEngine.TANTIVY, limit=3)
    token = served.ask(query).next_cursor
    changed = replace(query, **other)  # type: ignore[arg-type]
    found = served.ask(replace(changed, cursor=token))
    assert found.explain.cursor_invalidated
    assert found.hits == served.ask(changed).hits
    assert not served.ask(replace(query, cursor=token, limit=7)).explain.cursor_invalidated


@EVERY
@pytest.mark.parametrize(("at", "gone"), [(4, 1), (4, 3), (19, 1), (19, 3)])
def test_no_survivor_is_lost(engine: CursorEngine, at: int, gone: int, tmp_path: Path) -> None:
    """An index of vectors still holds the message, and not where it stood."""
    build(tmp_path, MAIL.messages)
    with whole(tmp_path) as mail:
        served, query = asked(mail, engine, limit=at + 1)
        whole_list = served.ids(replace(query, limit=1_000))
        first = served.ask(query)
        shown = [hit.message_id for hit in first.hits]
        for message_id in shown[-gone:]:
            mail.tantivy.update_incremental(changing.delete(mail.store, message_id))
        rest = walk(served, replace(query, cursor=first.next_cursor))
        seen = [*shown, *(one for page in rest for one in page)]
        assert sorted(seen) == sorted(whole_list)


STEPS = int(os.environ.get("MAIL_PAGING_STEPS", "60"))
PAGES_AT_ONCE = 15
"""About so many pages are read of one index."""
WORDS = ("review", "plan", "token", "broker", "laptop", "reservoir", "read_csv", "br-2tnl", "lunch")
EVERYONE = Scope("operator", lambda _: Visibility.ALLOW, audited=True)


def viewer(hidden: frozenset[int]) -> Scope:
    """Show all but some messages."""
    return Scope(
        f"all but {sorted(hidden)}",
        lambda m: Visibility.DENY if m.message_id in hidden else Visibility.ALLOW,
    )


def change(box: Ingest, rng: Random, at: int) -> None:
    """Insert long and short texts, which move the scores of all others, or edit or delete one."""
    subject = " ".join(rng.choices(WORDS, k=rng.randint(1, 5)))
    match rng.randrange(3):
        case 0:
            box.delete(at)
        case 1:
            box.edit(at, subject=subject)
        case _:
            long = f"{subject} " * rng.randrange(20)
            box.insert_all([Draft(1, subject, long, "Ann", ("Bob",))] * rng.randint(1, 3))


@EVERY
def test_what_stays_visible_comes_exactly_once_whatever_moves(
    tmp_path: Path, engine: CursorEngine
) -> None:
    """Between two pages messages change and are hidden, and everything is opened anew."""
    index, rng = pages_built(tmp_path, mode="hybrid"), Random(engine.value)
    with ingest.opened(index / pages_mail.STORE) as box:
        texts = (f"{a} {b} the {c}" for a, b, c in zip(WORDS, WORDS[1:], WORDS[2:], strict=False))
        box.insert_all(Draft(1, text, "to all", "Ann", ("Bob",)) for text in texts)
        for walk in range(max(2, STEPS // PAGES_AT_ONCE)):
            hidden, scope = frozenset[int](), EVERYONE if walk % 2 else viewer(frozenset())
            cursor, seen, lived, limit = None, list[int](), None, rng.randint(1, 4)
            ranking = rng.choice([*RankingMode])
            while lived is None or cursor is not None:
                with served(tmp_path, mode="hybrid") as searcher:
                    service, query = asked_of(searcher.service, engine, ranking)
                    if lived is None:
                        everything = service.search(replace(query, limit=1_000), scope)
                        lived = {hit.message_id for hit in everything.hits}
                    found = service.search(replace(query, limit=limit, cursor=cursor), scope)
                cursor, ids = found.next_cursor, {hit.message_id for hit in found.hits}
                assert (found.stale, found.served_by) == (False, engine.value)
                assert not found.explain.cursor_invalidated
                alive = {row[0] for row in box.store.read("SELECT id FROM messages")}
                assert ids <= alive - hidden
                assert ids.isdisjoint(seen)
                seen += ids
                for at in rng.sample(sorted(alive), rng.randrange(3)):
                    lived.discard(at)
                    if scope is EVERYONE or rng.random() < 0.7:
                        change(box, rng, at)
                    else:
                        hidden |= {at}
                        scope = viewer(hidden)
            assert lived <= {*seen}


def asked_of(
    service: MailSearch, engine: CursorEngine, ranking: RankingMode
) -> tuple[MailSearch, SearchQuery]:
    """Return who answers by an engine, and a query that it answers."""
    mode, switch = WAYS[engine]
    tiers = replace(service.tiers, reranker=ByLength())
    text = "review plan broker"
    if engine is CursorEngine.LIKE:
        text = "re"
        tiers = replace(tiers, lexical={FallbackTier.LIKE: tiers.lexical[FallbackTier.LIKE]})
    served = replace(service, tiers=tiers, switch=switch)
    return served, SearchQuery(text, mode=mode, ranking=ranking)
