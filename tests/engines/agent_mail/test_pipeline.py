"""Kinds of results, and pages of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_engines.contract import EngineError
from harness_engines.lexical.grammar import exact_clauses as clauses
from harness_engines.stacks.agent_mail.contract import (
    Agent,
    CandidateList,
    Direction,
    DocKind,
    Event,
    ExplainTiming,
    Filters,
    Importance,
    MailEngine,
    MailProject,
    MessageCandidate,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from harness_engines.stacks.agent_mail.pipeline.pages import entities, messages
from harness_engines.stacks.agent_mail.pipeline.plan import (
    MAX_WORDS,
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
    bounded,
)
from harness_engines.stacks.agent_mail.pipeline.retrievers import (
    ScoredMessage,
    in_order,
    of_lexical,
)
from harness_engines.stacks.agent_mail.pipeline.scope import (
    REDACTED,
    Scope,
    Visibility,
    unrestricted,
    viewer,
)
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.schema import AGENTS
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights, Fts5Engine, matching_ids
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.engines.agent_mail.fakes import Log, message, service
from tests.engines.agent_mail.whole import Whole
from tests.make import mail_changing as changing
from tests.make.mail_changing import Directory
from tests.make.mail_engines import built
from tests.make.mail_messages import Mail, one, passes, stored

WEIGHTS = ColumnWeights(2.0, 1.0, 4.0)
AGENT, PROJECT = DocKind.AGENT, DocKind.PROJECT
OTHERS = (AGENT, PROJECT)


@pytest.fixture
def known(tmp_path: Path) -> Iterator[MessageStore]:
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
def search(known: MessageStore) -> MailSearch:
    return replace(service([message(1, "messages")]), entities=entities(known, WEIGHTS))


def shown(search_response: SearchResponse) -> list[str]:
    """Names of agents and slugs of projects."""
    assert search_response.hits == ()
    kept = (hit.entity for hit in search_response.entities)
    return [entity.name if isinstance(entity, Agent) else entity.slug for entity in kept]


@pytest.mark.slow
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
def test_words_find_entities(
    search: MailSearch, text: str, kind: DocKind, expected: list[str]
) -> None:
    found = search.search(SearchQuery(text, doc_kind=kind))
    assert sorted(shown(found)) == expected
    assert {hit.doc_kind for hit in found.entities} <= {kind}
    assert (found.explain.engine, found.explain.method) == ("fts5", "fts5")
    assert not found.degraded


@pytest.mark.slow
def test_what_is_shown_is_all_that_is_known(search: MailSearch, known: MessageStore) -> None:
    agent, project = (
        search.search(SearchQuery(text, doc_kind=kind)).entities[0]
        for text, kind in (("AmberFox", AGENT), ("data-tools", PROJECT))
    )
    ((agent_id,),) = known.ask("SELECT id FROM agents WHERE name = 'AmberFox'")
    told = "indexes messages and builds br-2tnl"
    assert agent.entity == Agent(agent_id, 1, "AmberFox", "codex", "m-4.1", "indexes messages")
    assert project.entity == MailProject(9, "data-tools", "Data tools", told)
    assert (agent.doc_id, project.doc_id) == (agent_id, 9)
    assert agent.score == project.score == 1.0 < 1 + agent.raw_score
    Directory(known).register(3, "messages")
    found = search.search(SearchQuery("messages", doc_kind=AGENT))
    scores = [hit.score for hit in found.entities]
    assert shown(found)[0] == "messages"
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    few = search.search(SearchQuery("messages", doc_kind=AGENT, min_score=scores[1]))
    assert few.entities == found.entities[:2]
    assert few.explain.facets_applied == ("min_score",)


@pytest.mark.slow
def test_only_the_project_filters_entities(search: MailSearch) -> None:
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_by_recency_the_order_is_by_relevance_and_explain_says_so(search: MailSearch) -> None:
    asked = SearchQuery("messages", doc_kind=AGENT)
    found = search.search(replace(asked, ranking=RankingMode.RECENCY))
    assert found.entities == search.search(asked).entities
    assert "only messages are sent" in found.explain.note
    none = service([message(1, "messages")]).search(asked)
    assert none.entities == ()
    assert "no agents are held here" in none.explain.note
    token = search.search(SearchQuery("messages", doc_kind=AGENT, limit=1)).next_cursor
    assert token is not None
    read = SearchCursor.decode(token)
    assert read is not None
    assert read.engine is CursorEngine.AGENTS
    for kind in (PROJECT, DocKind.MESSAGE):
        found = search.search(SearchQuery("messages", doc_kind=kind, cursor=token))
        assert found.explain.cursor_invalidated
        assert found.hits or found.entities


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_a_viewer_without_a_view_knows_no_one(search: MailSearch, kind: DocKind) -> None:
    nothing = Scope("nothing", lambda _: Visibility.DENY)
    found = search.search(SearchQuery("messages", doc_kind=kind), nothing)
    assert (found.entities, found.explain.scope_policy) == ((), "nothing")
    assert search.search(SearchQuery("messages"), nothing).hits == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("text", ["reed", ""])
def test_pages_show_each_once(
    search: MailSearch, known: MessageStore, kind: DocKind, text: str
) -> None:
    for at in range(20, 53):
        known.add_project(at, f"p{at}", "reed " * (1 + at % 3))
        Directory(known).register(7, f"a{at}", task_description="reed " * (1 + at % 3))
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


@pytest.mark.slow
def test_without_an_index_like_finds(search: MailSearch, known: MessageStore) -> None:
    Fts5Engine(known, WEIGHTS, table=AGENTS).remove()
    found = search.search(SearchQuery("messages", doc_kind=AGENT))
    assert sorted(shown(found)) == ["AmberFox", "OchreWolf", "TealOtter"]
    assert (found.explain.engine, found.explain.used_like_fallback) == ("like", True)
    assert {hit.score for hit in found.entities} == {0.0}
    assert found.degraded
    assert "agents_fts" in found.explain.note
    assert search.search(SearchQuery("indexes", doc_kind=PROJECT)).explain.engine == "fts5"


@pytest.mark.slow
def test_the_index_follows_what_is_written(search: MailSearch, known: MessageStore) -> None:
    def names(text: str, kind: DocKind) -> list[str]:
        return shown(search.search(SearchQuery(text, doc_kind=kind)))

    listed = Directory(known)
    again = listed.register(1, "AmberFox", task_description="digs wells_2")
    assert listed.agents([again, 404]) == {
        again: Agent(again, 1, "AmberFox", "", "", "digs wells_2")
    }
    assert names("indexes", AGENT) == []
    assert names("wells_2", AGENT) == names("amberfox", AGENT) == ["AmberFox"]
    listed.describe(MailProject(9, "data-tools", "", "moss"))
    assert names("indexes", PROJECT) == []
    assert names("moss", PROJECT) == names("data-tools", PROJECT) == ["data-tools"]
    for wrong in (MailProject(9, "other"), MailProject(404, "data-tools")):
        with pytest.raises(KeyError, match=f"no project {wrong.project_id}"):
            listed.describe(wrong)
    changing.insert(known, one(2, sender_name="NewComer", recipients=("AmberFox",)))
    assert names("newcomer", AGENT) == ["NewComer"]
    assert listed.agents([again])[again].task_description == "digs wells_2"
    for table in ("agents_fts", "projects_fts"):
        known.ask(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")  # noqa: S608  ours
    assert Fts5Engine(known, WEIGHTS, table=AGENTS).health().ready


@pytest.mark.slow
def test_an_operator_sees_what_a_policy_that_allows_all_shows() -> None:
    hits = [ScoredMessage(at, 1 / at, 9.0 / at) for at in (4, 1, 7, 2)]
    known = {at: message(at, f"messages {at}") for at in (1, 2, 4)}
    asked = replace(unrestricted(), whole=False)
    shown = messages(unrestricted(), hits, known)
    assert shown == messages(asked, hits, known)
    found = [hit for hit in shown if isinstance(hit, SearchHit)]
    assert [hit.message_id for hit in found] == [4, 1, 2]
    denies = Scope("none", lambda _: Visibility.DENY, audited=True)
    assert messages(denies, hits, known) == []


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


@pytest.mark.slow
def test_vectors_words_fusion_and_reranking_follow_each_other(post: Whole) -> None:
    """What is reranked are the first of the fused list, in its order."""
    calls: list[tuple[str, tuple[Any, ...]]] = []
    tiers = post.service.tiers
    words = cast("Any", Recorded(tiers.lexical[FallbackTier.TANTIVY], "words", calls))
    recorded = replace(
        tiers,
        lexical={FallbackTier.TANTIVY: words},
        semantic=cast("Any", Recorded(tiers.semantic, "vectors", calls)),
        reranker=cast("Any", Recorded(tiers.reranker, "reranking", calls)),
    )
    query = SearchQuery("deployment review", mode=SearchMode.HYBRID_RERANK, rerank_top_k=10)
    found = replace(post.service, tiers=recorded).search(query)
    assert found.served_by == FallbackTier.RERANK
    assert [name for name, _ in calls] == ["vectors", "words", "reranking"]
    _, ids, _ = calls[-1][1]
    assert [*ids] == post.ids(replace(query, mode=SearchMode.HYBRID, limit=10))


@given(st.lists(st.sampled_from(["plan", '"a plan"', "+x", "-y", "br-2tnl", "(", "部署", "a*"])))
def test_what_people_type_is_left_alone(pieces: list[str]) -> None:
    text = " ".join(pieces[:50])
    assert bounded(text) == (text, "")


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=250, max_size=500),
    st.sampled_from([" ", "-", '" "', "*", "_"]),
)
def test_no_more_words_are_searched_for(words: list[str], between: str) -> None:
    text = between.join(words)
    found = bounded(text)
    assert sum(len(clause.words) for clause in clauses(found.text)) <= MAX_WORDS or not found.note


@pytest.mark.parametrize(
    ("text", "kept", "note"),
    [
        ("deployment " * 700, "deployment", None),
        ('"Plan" plan +plan ' * 700, '"Plan"', None),
        ('"' + "a b " * 400 + '"', f'"{" ".join("ab" * (MAX_WORDS // 2))}"', None),
        (" ".join(f"a{chr(0x2600 + at)}" for at in range(150)), None, "300 words"),
    ],
    ids=["one word", "one phrase", "a long phrase is cut and stays a phrase", "emoji are words"],
)
def test_a_long_text_is_bounded(text: str, kept: str | None, note: str | None) -> None:
    found = bounded(text)
    assert kept is None or found.text.split() == kept.split()
    assert note is None or found.note.startswith(note)
    assert sum(len(clause.words) for clause in clauses(found.text)) <= MAX_WORDS


def test_a_caller_is_told() -> None:
    found = service([message(1, "plan")]).search(SearchQuery("plan " * 201))
    assert [hit.message_id for hit in found.hits] == [1]
    assert "201 words" in found.explain.note
    assert service([]).search(SearchQuery("plan " * 200)).explain.note == ""


def found(*scores: float) -> CandidateList:
    candidates = tuple(MessageCandidate(at, score) for at, score in enumerate(scores, start=1))
    return CandidateList(candidates, exhausted=True, method="m", normalized_query=None)


@pytest.mark.parametrize(
    ("raw", "shares"), [((4.0, 1.0), [1.0, 0.25]), ((0.3,), [1.0]), ((0.0, 0.0), [0.0, 0.0])]
)
def test_a_score_is_a_share_of_the_best(raw: tuple[float, ...], shares: list[float]) -> None:
    hits = of_lexical(found(*raw), ExplainTiming()).hits
    assert [(hit.message_id, hit.score) for hit in hits] == [*enumerate(shares, start=1)]
    assert tuple(hit.raw_score for hit in hits) == raw


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_an_error(score: float) -> None:
    with pytest.raises(EngineError, match="message 1"):
        of_lexical(found(score), ExplainTiming())


@pytest.mark.parametrize(
    ("hits", "ids"),
    [
        (
            [
                ScoredMessage(3, 0.5, 1),
                ScoredMessage(1, 0.5, 1),
                ScoredMessage(2, 0.9, 1),
                ScoredMessage(9, 0.1, 1),
            ],
            [2, 1, 3, 9],
        ),
        ([ScoredMessage(1, 0.9, 1, sent=5), ScoredMessage(2, 0.1, 1, sent=7)], [2, 1]),
        ([ScoredMessage(1, 0, 0, sent=2**53), ScoredMessage(2, 0, 0, sent=2**53 + 1)], [2, 1]),
    ],
    ids=["scores", "times", "times that no float holds"],
)
def test_order_is_by_key_and_then_by_id(hits: list[ScoredMessage], ids: list[int]) -> None:
    assert [hit.message_id for hit in in_order(hits)] == ids


def test_matching_ids_are_those_that_pass_in_order(store: MessageStore, mail: Mail) -> None:
    for filters in (Filters(), Filters(project_id=2), Filters(ack_required=True)):
        wanted = sorted(m.message_id for m in mail.messages if passes(m, filters))
        assert matching_ids(store, filters).tolist() == wanted


@pytest.mark.parametrize("engine", ["fts5", "tantivy"])
def test_recency_keeps_scores(store: MessageStore, mail: Mail, tmp_path: Path, engine: str) -> None:
    asked: MailEngine = (
        Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0))
        if engine == "fts5"
        else built(tmp_path / "mail", mail.messages).engine
    )
    text = "deployment review br-2tnl failed"

    def scores(ranking: RankingMode, depth: int) -> dict[int, float]:
        hits = of_lexical(
            asked.search(text, Filters(project_id=2), ranking, depth), ExplainTiming()
        ).hits
        return {hit.message_id: hit.score for hit in hits}

    whole = scores(RankingMode.RELEVANCE, 1_000)
    assert scores(RankingMode.RECENCY, 1_000) == pytest.approx(whole, abs=1e-12)
    for depth in (1, 2, 3, 5, 8):
        few = scores(RankingMode.RECENCY, depth)
        assert few == pytest.approx({at: whole[at] for at in few}, abs=1e-12)
    assert max(scores(RankingMode.RECENCY, 1).values()) < 1.0


@given(st.text(max_size=60))
def test_any_bytes_for_a_cursor_start_at_page_one(token: str) -> None:
    search = service([message(1, "a"), message(2, "a")])
    plain = search.search(SearchQuery("a"))
    found = search.search(SearchQuery("a", cursor=token))
    if found.explain.cursor_invalidated:
        assert found.hits == plain.hits


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**62), 2**62))
def test_a_cursor_reads_back_bit_for_bit(score: float, message_id: int) -> None:
    assert SearchCursor.decode(SearchCursor(score, message_id).encode()) is not None
    for engine, seen in product(CursorEngine, ((), (3,), (-(2**63), -1, 0, 7, 2**63 - 1))):
        query = "0123456789abcdef" if seen else ""
        cursor = SearchCursor(score, message_id, engine, query, frozenset(seen))
        assert SearchCursor.decode(cursor.encode()) == cursor


def test_the_wire_format_is_the_specifications() -> None:
    assert SearchCursor(0.5, 42).encode() == "s3fe0000000000000:i42"
    assert SearchCursor(0.5, 42, CursorEngine.TANTIVY).encode() == "s3fe0000000000000:i42:etantivy"
    for bad in (
        "s7ff0000000000000:i1",
        "s7ff8000000000000:i1",
        "s3fe:i1",
        "",
        "s3fe0000000000000:i1:elucene",
        "s3fe0000000000000:i1:elike:b1,2",
        "s3fe0000000000000:i1:elike:q0123456789abcdef",
        "s3fe0000000000000:i1:elike:q0123456789abcdef:x",
        "s3fe0000000000000:i1:elike:q0123456789abcdef:xAB",
        "s3fe0000000000000:i1:elike:q0123456789abcdef:x" + "_" * 40,
    ):
        assert SearchCursor.decode(bad) is None


@pytest.mark.parametrize("engine", [CursorEngine.TANTIVY, None])
def test_only_a_cursor_without_engine_goes_on_in_another(engine: CursorEngine | None) -> None:
    log = Log()
    messages = [message(at, "a") for at in range(1, 6)]
    token = SearchCursor(1.0, 2, engine).encode()
    moved = service(messages, switch=KillSwitch.FTS5, log=log)
    found = moved.search(SearchQuery("a", limit=2, cursor=token))
    assert [hit.message_id for hit in found.hits] == ([1, 2] if engine else [3, 4])
    assert found.explain.cursor_invalidated == bool(engine)
    told = [event for event, _ in log.events]
    assert told[-1:] == [Event.CURSOR_INVALIDATED] * bool(engine)


def test_redaction_hides_subject_and_body_and_is_counted() -> None:
    mail = [message(1, "a secret", project=9, sender="Eve"), message(2, "a", project=9)]
    asked = service([mail[0], replace(mail[1], sender_name="Mal")])
    seen = viewer("Zoe", frozenset({1}), frozenset({"Eve"}))
    found = asked.search(SearchQuery("", project_id=9), seen)
    ((hit,), told) = found.hits, found.explain
    assert (hit.subject, hit.body, hit.redacted) == (REDACTED, REDACTED, True)
    assert (told.denied_count, told.redacted_count) == (0, 1)
    assert told.scope_policy == "viewer:Zoe"
    audited = asked.search(SearchQuery("a"), replace(seen, audited=True)).explain
    assert (audited.denied_count, audited.redacted_count) == (1, 1)


@pytest.mark.parametrize(
    ("text", "seen", "ids"),
    [
        ("secret", viewer("Zoe", frozenset({1}), frozenset({"Eve"})), []),
        ("a", viewer("Bob", frozenset(), frozenset()), [1, 2]),
        ("a", viewer("Zoe", frozenset({1}), frozenset()), [2]),
    ],
    ids=["a redacted text", "own mail", "own projects"],
)
def test_what_a_viewer_finds(text: str, seen: Scope, ids: list[int]) -> None:
    messages = [message(1, "a secret", project=9, sender="Eve"), message(2, "a", sender="Mal")]
    found = service(messages).search(SearchQuery(text), seen)
    assert [hit.message_id for hit in found.hits] == ids


FIVE = ["a a a a", "a a", "a a", "a", "a"]


@pytest.mark.parametrize(
    "after",
    [
        {2: "a a", 3: "a a", 4: "a", 5: "a"},
        {1: "a a a a", 3: "a a", 4: "a", 5: "a"},
        dict(enumerate(FIVE, start=1)) | dict.fromkeys(range(11, 31), "a a a") | {10: " a" * 100},
    ],
    ids=["the best is deleted", "the last is deleted", "better ones are written"],
)
def test_a_page_goes_on_where_the_last_one_ended(after: dict[int, str]) -> None:
    made = [message(at, subject) for at, subject in enumerate(FIVE, start=1)]
    token = service(made).search(SearchQuery("a", limit=2)).next_cursor
    now = [message(at, subject) for at, subject in after.items()]
    found = service(now).search(SearchQuery("a", limit=2, cursor=token))
    assert not found.explain.cursor_invalidated
    assert [hit.message_id for hit in found.hits] == [3, 4]
