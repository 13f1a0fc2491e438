"""Agents and projects beside messages, and the ways to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness_engines.stacks.agent_mail.contract import (
    Agent,
    Direction,
    DocKind,
    Event,
    Importance,
    Project,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from harness_engines.stacks.agent_mail.pipeline.pages import entities, messages
from harness_engines.stacks.agent_mail.pipeline.plan import (
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from harness_engines.stacks.agent_mail.pipeline.retrievers import Scored
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, unrestricted
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.schema import AGENTS
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, Weights
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.engines.agent_mail.fakes import Log, message, service
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail import changing
from tests.make.mail.directory import Directory
from tests.make.mail.messages import one, some_mail, stored

pytestmark = pytest.mark.slow

WEIGHTS = Weights(2.0, 1.0, 4.0)
AGENT, PROJECT = DocKind.AGENT, DocKind.PROJECT
OTHERS = (AGENT, PROJECT)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """Hold four agents and five projects; ``SlateHeron`` is known from a message alone."""
    with stored(tmp_path / "mail.db", [one(1, "salt", recipients=("SlateHeron",))]) as made:
        made.add_project(9, "data-tools", "Data tools", "indexes messages and builds br-2tnl")
        known = Directory(made)
        known.register(
            1, "AmberFox", program="codex", model="m-4.1", task_description="indexes messages"
        )
        known.register(2, "OchreWolf", task_description="reviews messages of br-2tnl")
        known.register(2, "TealOtter", program="codex", task_description="messages, all messages")
        yield made


@pytest.fixture
def search(store: MessageStore) -> MailSearch:
    return replace(service([message(1, "messages")]), entities=entities(store, WEIGHTS))


def shown(search_response: SearchResponse) -> list[str]:
    """Names of agents and slugs of projects."""
    assert search_response.hits == ()
    kept = (hit.entity for hit in search_response.entities)
    return [entity.name if isinstance(entity, Agent) else entity.slug for entity in kept]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("amberfox", AGENT, ["AmberFox"]),
        ("slateheron", AGENT, ["SlateHeron"]),
        ("codex", AGENT, ["AmberFox", "TealOtter"]),
        ("m-4.1", AGENT, ["AmberFox"]),
        ("br-2tnl", AGENT, ["OchreWolf"]),
        ("+messages -codex", AGENT, ["OchreWolf"]),
        ("Och*", AGENT, ["OchreWolf"]),
        ("salt", AGENT, []),
        ("data-tools", PROJECT, ["data-tools"]),
        ("tools", PROJECT, ["data-tools"]),
        ('"indexes messages"', PROJECT, ["data-tools"]),
        ("harbour", PROJECT, ["harbour"]),
        ("AmberFox", PROJECT, []),
    ],
)
def test_words_find_agents_and_projects(
    search: MailSearch, text: str, kind: DocKind, expected: list[str]
) -> None:
    found = search.search(SearchQuery(text, doc_kind=kind))
    assert sorted(shown(found)) == expected
    assert {hit.doc_kind for hit in found.entities} <= {kind}
    assert (found.explain.engine, found.explain.method) == ("fts5", "fts5")
    assert not found.degraded


def test_what_is_shown_is_all_that_is_known(search: MailSearch, store: MessageStore) -> None:
    agent, project = (
        search.search(SearchQuery(text, doc_kind=kind)).entities[0]
        for text, kind in (("AmberFox", AGENT), ("data-tools", PROJECT))
    )
    ((agent_id,),) = store.ask("SELECT id FROM agents WHERE name = 'AmberFox'")
    assert agent.entity == Agent(agent_id, 1, "AmberFox", "codex", "m-4.1", "indexes messages")
    assert project.entity == Project(
        9, "data-tools", "Data tools", "indexes messages and builds br-2tnl"
    )
    assert (agent.doc_id, project.doc_id) == (agent_id, 9)
    assert agent.score == project.score == 1.0
    assert agent.raw_score > 0


def test_the_name_counts_more_than_the_rest_and_scores_are_shares_of_the_best(
    search: MailSearch, store: MessageStore
) -> None:
    Directory(store).register(3, "messages")
    found = search.search(SearchQuery("messages", doc_kind=AGENT))
    scores = [hit.score for hit in found.entities]
    assert shown(found)[0] == "messages"
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    few = search.search(SearchQuery("messages", doc_kind=AGENT, min_score=scores[1]))
    assert few.entities == found.entities[:2]
    assert few.explain.facets_applied == ("min_score",)


def test_a_project_filters_and_message_filters_are_ignored_without_a_word(
    search: MailSearch,
) -> None:
    of_messages = SearchQuery(
        "messages",
        doc_kind=AGENT,
        product_id=3,
        importance=(Importance.URGENT,),
        direction=Direction.INBOX,
        agent_name="nobody",
        thread_id="none",
        ack_required=True,
        time_range=TimeRange(5, 4),
        sender_name="nobody",
        recipient_name="nobody",
    )
    found = search.search(of_messages)
    plain = search.search(SearchQuery("messages", doc_kind=AGENT))
    assert found.entities == plain.entities != ()
    assert (found.explain.facets_applied, found.explain.facet_count) == ((), 0)
    assert found.explain.note == ""
    within = search.search(replace(of_messages, project_id=2))
    assert sorted(shown(within)) == ["OchreWolf", "TealOtter"]
    assert within.explain.facets_applied == ("project_id",)
    listed = search.search(SearchQuery("", doc_kind=PROJECT, project_id=9, thread_id="none"))
    assert shown(listed) == ["data-tools"]
    nothing = search.search(SearchQuery("", doc_kind=PROJECT, thread_id="none"))
    assert "the query is empty" in nothing.explain.note


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("switch", [None, *KillSwitch])
@pytest.mark.parametrize("mode", SearchMode)
def test_every_mode_is_served_by_words_and_says_why(
    search: MailSearch, kind: DocKind, mode: SearchMode, switch: KillSwitch | None
) -> None:
    log = Log()
    asked = replace(search, switch=switch, emit=log.emit)
    found = asked.search(SearchQuery("messages", doc_kind=kind, mode=mode))
    assert found.entities == search.search(SearchQuery("messages", doc_kind=kind)).entities != ()
    assert found.explain.actual_mode == "lexical"
    other = mode is not SearchMode.LEXICAL
    assert found.explain.mode_downgraded == other
    assert ("only messages have vectors" in (found.explain.downgrade_reason or "")) == other
    assert ("tantivy: holds only" in found.explain.note) == (switch is KillSwitch.TANTIVY)
    assert [event for event, _ in log.events] == [Event.MODE_DOWNGRADE] * other
    assert found.explain.shadow is None


def test_by_recency_the_order_is_by_relevance_and_explain_says_so(search: MailSearch) -> None:
    asked = SearchQuery("messages", doc_kind=AGENT)
    found = search.search(replace(asked, ranking=RankingMode.RECENCY))
    assert found.entities == search.search(asked).entities
    assert "only messages are sent" in found.explain.note


@pytest.mark.parametrize("kind", OTHERS)
def test_a_viewer_without_a_view_knows_no_one(search: MailSearch, kind: DocKind) -> None:
    nothing = Scope("nothing", lambda _: Visibility.DENY)
    found = search.search(SearchQuery("messages", doc_kind=kind), nothing)
    assert (found.entities, found.explain.scope_policy) == ((), "nothing")
    assert search.search(SearchQuery("messages"), nothing).hits == ()


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("text", ["reed", ""])
def test_pages_show_each_once(
    search: MailSearch, store: MessageStore, kind: DocKind, text: str
) -> None:
    for at in range(20, 53):
        store.add_project(at, f"p{at}", "reed " * (1 + at % 3))
        Directory(store).register(7, f"a{at}", task_description="reed " * (1 + at % 3))
    where = {"project_id": 7} if kind is AGENT else {"min_score": 0.0}
    query = SearchQuery(text, doc_kind=kind, limit=4, **where)
    seen = []
    for _ in range(20):
        found = search.search(query)
        assert not found.explain.cursor_invalidated
        seen += [(-hit.score, hit.doc_id) for hit in found.entities]
        if found.next_cursor is None:
            break
        query = replace(query, cursor=found.next_cursor)
    assert seen == sorted(set(seen))
    assert len(seen) == (33 if text or kind is AGENT else 38)


def test_a_page_of_another_kind_is_not_continued(search: MailSearch) -> None:
    token = search.search(SearchQuery("messages", doc_kind=AGENT, limit=1)).next_cursor
    assert token is not None
    read = SearchCursor.decode(token)
    assert read is not None
    assert read.engine is CursorEngine.AGENTS
    for kind in (PROJECT, DocKind.MESSAGE):
        found = search.search(SearchQuery("messages", doc_kind=kind, cursor=token))
        assert found.explain.cursor_invalidated
        assert found.hits or found.entities


def test_without_their_index_like_finds_them_and_says_so(
    search: MailSearch, store: MessageStore
) -> None:
    Fts5Engine(store, WEIGHTS, table=AGENTS).remove()
    found = search.search(SearchQuery("messages", doc_kind=AGENT))
    assert sorted(shown(found)) == ["AmberFox", "OchreWolf", "TealOtter"]
    assert (found.explain.engine, found.explain.used_like_fallback) == ("like", True)
    assert {hit.score for hit in found.entities} == {0.0}
    assert found.degraded
    assert "agents_fts" in found.explain.note
    assert search.search(SearchQuery("indexes", doc_kind=PROJECT)).explain.engine == "fts5"


def test_a_service_that_holds_none_answers_empty_and_says_so() -> None:
    found = service([message(1, "messages")]).search(SearchQuery("messages", doc_kind=AGENT))
    assert found.entities == ()
    assert "no agents are held here" in found.explain.note


def test_the_index_follows_what_is_written(search: MailSearch, store: MessageStore) -> None:
    def names(text: str, kind: DocKind) -> list[str]:
        return shown(search.search(SearchQuery(text, doc_kind=kind)))

    known = Directory(store)
    again = known.register(1, "AmberFox", task_description="digs wells_2")
    assert known.agents([again, 404]) == {
        again: Agent(again, 1, "AmberFox", "", "", "digs wells_2")
    }
    assert names("indexes", AGENT) == []
    assert names("wells_2", AGENT) == names("amberfox", AGENT) == ["AmberFox"]
    known.describe(Project(9, "data-tools", "", "moss"))
    assert names("indexes", PROJECT) == []
    assert names("moss", PROJECT) == names("data-tools", PROJECT) == ["data-tools"]
    for wrong in (Project(9, "other"), Project(404, "data-tools")):
        with pytest.raises(KeyError, match=f"no project {wrong.project_id}"):
            known.describe(wrong)
    changing.insert(store, one(2, sender_name="NewComer", recipients=("AmberFox",)))
    assert names("newcomer", AGENT) == ["NewComer"]
    assert known.agents([again])[again].task_description == "digs wells_2"
    for table in ("agents_fts", "projects_fts"):
        store.ask(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")  # noqa: S608  ours
    assert Fts5Engine(store, WEIGHTS, table=AGENTS).health().ready


def test_an_operator_sees_what_a_policy_that_allows_all_shows() -> None:
    hits = [Scored(at, 1 / at, 9.0 / at) for at in (4, 1, 7, 2)]
    known = {at: message(at, f"messages {at}") for at in (1, 2, 4)}
    asked = replace(unrestricted(), whole=False)
    shown = messages(unrestricted(), hits, known)
    assert shown == messages(asked, hits, known)
    found = [hit for hit in shown if isinstance(hit, SearchHit)]
    assert [hit.message_id for hit in found] == [4, 1, 2]
    denies = Scope("none", lambda _: Visibility.DENY, audited=True)
    assert messages(denies, hits, known) == []


TEXT = "deployment review"


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Whole]:
    build(tmp_path, some_mail(54, 60).messages)
    with whole(tmp_path) as made:
        yield made


@dataclass(frozen=True)
class Recorded:
    """A part that writes down when it is asked, and with what."""

    part: Any
    name: str
    calls: list[tuple[str, tuple[Any, ...]]]

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:  # noqa: ANN401  whatever the part takes and gives
            self.calls.append((self.name, given))
            return getattr(self.part, method)(*given)

        return call


def test_vectors_words_fusion_and_reranking_follow_each_other(mail: Whole) -> None:
    """What is reranked are the first of the fused list, in its order."""
    calls: list[tuple[str, tuple[Any, ...]]] = []
    tiers = mail.service.tiers
    recorded = replace(
        tiers,
        lexical={
            FallbackTier.TANTIVY: cast(
                "Any", Recorded(tiers.lexical[FallbackTier.TANTIVY], "words", calls)
            )
        },
        semantic=cast("Any", Recorded(tiers.semantic, "vectors", calls)),
        reranker=cast("Any", Recorded(tiers.reranker, "reranking", calls)),
    )
    service = replace(mail.service, tiers=recorded)
    query = SearchQuery(TEXT, mode=SearchMode.HYBRID_RERANK, rerank_top_k=10)
    assert service.search(query).served_by == FallbackTier.RERANK
    assert [name for name, _ in calls] == ["vectors", "words", "reranking"]
    _, ids, _ = calls[-1][1]
    assert [*ids] == mail.ids(SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=10))
