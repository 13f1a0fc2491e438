"""The contract of pages: one list, whatever is asked, seen or changed between them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, permutations
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness_engines.stacks.agent_mail import arm as pages_mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.contract import (
    Event,
    Filters,
    Importance,
    Message,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.pipeline.plan import (
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from harness_engines.stacks.agent_mail.pipeline.retrievers import TierQuery, digits_of
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.whole import MAIL, ByLength, Whole, build, whole
from tests.make import mail_changing as changing
from tests.make.mail_engines import built_live as built
from tests.make.mail_engines import served
from tests.source import ROOT
from tests.thinned import examples

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
def test_messages_deleted_between_pages_are_skipped(engine: CursorEngine, tmp_path: Path) -> None:
    """The cursor names one that is gone, as does the beginning of the next page."""
    build(tmp_path, MAIL.messages)
    with whole(tmp_path) as mail:
        served, query = asked(mail, engine, limit=4)
        whole_list = served.ids(replace(query, limit=1_000))
        first = served.ask(query)
        for gone in whole_list[3:5]:
            changing.delete(mail.store, gone)
        rest = [*chain(*walk(served, replace(query, cursor=first.next_cursor)))]
        assert sorted(rest) == sorted(whole_list[5:]) != []
        if engine in {CursorEngine.LIKE, CursorEngine.SEMANTIC}:
            assert rest == whole_list[5:]


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
        mail.tantivy.update_incremental([changing.delete(mail.store, one) for one in shown[-gone:]])
        rest = walk(served, replace(query, cursor=first.next_cursor))
        seen = [*shown, *(one for page in rest for one in page)]
        assert sorted(seen) == sorted(whole_list)


PAGE_MAIL = anything.messages(seed=61, count=120)
PAGE_WAYS = ("tantivy", "fts5", "like", "semantic", "hybrid", "hybrid_rerank")
QUERIES = st.builds(
    SearchQuery,
    text=st.sampled_from(["", "the deployment failed", "review br-2tnl", "index 部署", "a* done"]),
    project_id=st.none() | st.sampled_from([1, 2]),
    min_score=st.sampled_from([None, None, 0.0, 0.2]),
    ranking=st.sampled_from(RankingMode),
    rrf_k=st.none() | st.integers(1, 100),
    rerank_top_k=st.none() | st.integers(10, 60),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any")
    build(folder, PAGE_MAIL)
    return folder


@pytest.fixture(scope="module")
def mail_page(made: Path) -> Iterator[Whole]:
    with whole(made) as opened:
        yield opened


def by_way(mail: Whole, way: str, query: SearchQuery) -> tuple[Whole, SearchQuery]:
    """Ask so that ``way`` answers."""
    if way in {"fts5", "tantivy"}:
        return mail.under(KillSwitch(way)), query
    if way == "like":
        return mail.without(FallbackTier.TANTIVY, FallbackTier.FTS5), query
    asked = query.text or "the deployment failed"
    return mail, replace(query, mode=SearchMode(way), text=asked)


def scope(seed: int) -> Scope:
    """Deny, redact and allow at random, at all shares; 0 denies nothing."""
    share = Random(seed).random() if seed else 0.0

    def verdict(message: object) -> Visibility:
        dice = Random(f"{seed} {message}").random()
        if dice < share:
            return Visibility.DENY
        return Visibility.REDACT if dice < (1 + share) / 2 else Visibility.ALLOW

    return Scope(f"random {seed}", verdict)


def ordered(mail: Whole, query: SearchQuery, seen_as: Scope) -> Sequence[SearchHit]:
    """Give all that may be seen on one page, which is never full."""
    found = mail.ask(replace(query, cursor=None, limit=1_000), seen_as)
    assert found.next_cursor is None
    return found.hits


@settings(
    deadline=None,
    max_examples=examples(120),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=QUERIES,
    way=st.sampled_from(PAGE_WAYS),
    seen_as=st.integers(0, 50).map(scope),
    limits=st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_pages_in_a_row_are_the_whole_answer(
    mail_page: Whole, query: SearchQuery, way: str, seen_as: Scope, limits: list[int]
) -> None:
    asked, query = by_way(mail_page, way, query)
    everything = ordered(asked, query, seen_as)
    seen: list[SearchHit] = []
    for page in range(len(PAGE_MAIL) + 1):
        limit = limits[page % len(limits)]
        found = asked.ask(replace(query, limit=limit), seen_as)
        by = {"hybrid_rerank": "rerank"}.get(way, way)
        assert by == found.explain.engine or found.explain.method == "empty"
        assert not found.explain.cursor_invalidated
        seen += found.hits
        if found.next_cursor is None:
            break
        assert len(found.hits) == limit
        query = replace(query, cursor=found.next_cursor)
    assert seen == [*everything]


STEPS = int(os.environ.get("MAIL_PAGING_STEPS", "60"))
AT_ONCE = 40
"""Steps over one index."""
WORDS = ("review", "plan", "token", "broker", "laptop", "reservoir", "read_csv", "br-2tnl", "lunch")
SUBJECTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
EVERYONE = Scope("operator", lambda _: Visibility.ALLOW, audited=True)


def viewer(hidden: frozenset[int]) -> Scope:
    """Show all but some messages."""
    return Scope(
        f"all but {sorted(hidden)}",
        lambda m: Visibility.DENY if m.message_id in hidden else Visibility.ALLOW,
    )


class Moving(RuleBasedStateMachine):
    """Pages through one query while messages, engine, scope and process change."""

    model: Path
    taken = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="moving"))
        shutil.copytree(self.model, self.folder, dirs_exist_ok=True)
        self.open = ExitStack()
        self.restart()
        self.way, self.query = "tantivy", SearchQuery("review plan", limit=2)
        self.scope: Scope = EVERYONE
        self.hidden: frozenset[int] = frozenset()
        self.seen: list[int] = []
        self.lived: set[int] | None = None

    def teardown(self) -> None:
        self.open.close()
        shutil.rmtree(self.folder)

    @initialize(
        way=st.sampled_from(PAGE_WAYS),
        text=st.sampled_from(["review plan", "token broker lunch", "br-2tnl"]),
        ranking=st.sampled_from(RankingMode),
        limit=st.integers(1, 4),
        audited=st.booleans(),
    )
    def begin(self, way: str, text: str, ranking: RankingMode, limit: int, audited: bool) -> None:  # noqa: FBT001  hypothesis passes by name
        self.way, self.query = way, SearchQuery(text, limit=limit, ranking=ranking)
        self.scope = EVERYONE if audited else viewer(frozenset())

    @rule(subject=SUBJECTS, times=st.integers(0, 20), many=st.integers(1, 3))
    def insert(self, subject: str, times: int, many: int) -> None:
        """Insert long and short texts, which move the scores of all others."""
        self.step()
        draft = Draft(1, subject, f"{subject} " * times, "Ann", ("Bob",))
        self.box.insert_all([draft] * many)

    @rule(at=st.integers(0, 99), subject=SUBJECTS)
    def edit(self, at: int, subject: str) -> None:
        self.step()
        self.box.edit(self.moved(at), subject=subject)

    @rule(at=st.integers(0, 99))
    def delete(self, at: int) -> None:
        """Delete a message, and write another, so that some are left."""
        self.step()
        self.box.delete(self.moved(at))
        self.box.insert(Draft(1, "review of the plan token", "", "Ann"))

    @rule(way=st.sampled_from(PAGE_WAYS), dice=st.integers(0, 5))
    def switch(self, way: str, dice: int) -> None:
        """Let another engine answer, though not so often that no list is read to its end."""
        self.step()
        if not dice:
            self.way = way

    @rule()
    def restart(self) -> None:
        """Open everything anew, as another process does."""
        self.open.close()
        searcher = self.open.enter_context(served(self.folder, mode="hybrid"))
        table = self.folder / "index" / pages_mail.STORE
        self.box = self.open.enter_context(ingest.opened(table))
        tiers = replace(searcher.service.tiers, reranker=ByLength())
        self.service = replace(searcher.service, tiers=tiers)

    @precondition(lambda self: self.scope is not EVERYONE)
    @rule(at=st.integers(0, 99))
    def narrow(self, at: int) -> None:
        self.step()
        self.hidden |= {self.moved(at)}
        self.scope = viewer(self.hidden)

    @rule()
    def read_on(self) -> None:
        self.page()

    @rule()
    def read_further(self) -> None:
        self.page()

    @rule()
    def page(self) -> None:
        """Read the next page; at the end of the list, what lived throughout has come."""
        self.step()
        service, query = self.asked()
        if self.lived is None:
            everything = service.search(replace(query, cursor=None, limit=1_000), self.scope)
            self.lived = {hit.message_id for hit in everything.hits}
        found = service.search(query, self.scope)
        assert not found.stale
        assert found.served_by == {"hybrid_rerank": "rerank"}.get(self.way, self.way)
        ids = [hit.message_id for hit in found.hits]
        if found.explain.cursor_invalidated:
            self.query, self.seen, self.lived = replace(self.query, cursor=None), [], None
            return
        alive = {row[0] for row in self.box.store.read("SELECT id FROM messages")}
        assert set(ids) <= alive - self.hidden
        self.seen += ids
        assert len(self.seen) == len(set(self.seen))
        self.query = replace(self.query, cursor=found.next_cursor)
        if found.next_cursor is None:
            assert self.lived <= set(self.seen)
            self.seen, self.lived = [], None

    def asked(self) -> tuple[MailSearch, SearchQuery]:
        """Give who answers by the way, and the query that it answers."""
        if self.way in {"tantivy", "fts5"}:
            return replace(self.service, switch=KillSwitch(self.way)), self.query
        if self.way == "like":
            tiers = self.service.tiers
            there = {FallbackTier.LIKE: tiers.lexical[FallbackTier.LIKE]}
            plain = replace(self.service, tiers=replace(tiers, lexical=there))
            return plain, replace(self.query, text="re")
        return self.service, replace(self.query, mode=SearchMode(self.way))

    def moved(self, at: int) -> int:
        """Name a message that will not have lived unchanged throughout."""
        ids = [row[0] for row in self.box.store.read("SELECT id FROM messages ORDER BY id")]
        chosen = int(ids[at % len(ids)])
        if self.lived is not None:
            self.lived.discard(chosen)
        return chosen

    def step(self) -> None:
        type(self).taken += 1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    index = built(folder, mode="hybrid")
    with ingest.opened(index / pages_mail.STORE) as box:
        texts = (f"{a} {b} the {c}" for a, b, c in zip(WORDS, WORDS[1:], WORDS[2:], strict=False))
        box.insert_all(Draft(1, text, "to all", "Ann", ("Bob",)) for text in texts)
    return folder


def test_what_stays_visible_comes_exactly_once_whatever_moves(model: Path) -> None:
    Moving.model, Moving.taken = model, 0
    how = settings(
        deadline=None,
        max_examples=max(1, STEPS // AT_ONCE),
        stateful_step_count=AT_ONCE,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    while Moving.taken < STEPS:
        run_state_machine_as_test(Moving, settings=how)


def test_another_process_knows_a_query_by_the_same_digits() -> None:
    """Sets of words have another order in each process."""
    code = "from tests.engines.agent_mail.test_contract_pages import digits; print(digits())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert said == {digits()}


def digits() -> str:
    """Tell one query with sets in its filters."""
    filters = Filters(importance=frozenset(Importance), product_projects=frozenset({3, 70, 9}))
    asked = TierQuery("review", filters, RankingMode.RELEVANCE, 60, 100)
    return digits_of(SearchQuery("review"), asked)
