"""The service: modes, switches, shadows, and what a viewer may see."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import UnknownName
from harness_engines.contract import EngineError
from harness_engines.lexical.grammar import exact_clauses as clauses
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import DocKind, Importance, RankingMode, SearchQuery
from harness_engines.stacks.agent_mail.pipeline import plan
from harness_engines.stacks.agent_mail.pipeline import scope as scopes
from harness_engines.stacks.agent_mail.pipeline.pages import entities, of_lexical
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch, SearchCursor
from harness_engines.stacks.agent_mail.pipeline.scope import REDACTED, Scope, Visibility, viewer
from harness_engines.stacks.agent_mail.service import MailSearch, Observer
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from harness_engines.stacks.agent_mail.views import StoredViews
from tests.engines.agent_mail.whole import EYE, MAIL, Whole, World, message, service, world
from tests.make import mail_changing as changing
from tests.make.mail_changing import Directory
from tests.make.mail_engines import built
from tests.make.mail_messages import AGENTS, THREADS, Mail, one, stored

pytestmark = pytest.mark.slow
MESSAGES = [
    message(1, "deploy failed"),
    message(2, "deploy deploy done", sender="Cid"),
    message(3, "lunch", project=2),
    message(4, "deploy", project=2),
]


@pytest.mark.parametrize(
    ("asked", "ids", "facets"),
    [
        (SearchQuery("", project_id=2), [3, 4], ("project_id",)),
        (SearchQuery("deploy", project_id=2, product_id=7), [4], ("project_id",)),
        (SearchQuery("deploy", ranking=RankingMode.RECENCY), [4, 2, 1], ()),
        (SearchQuery("deploy", min_score=0.6), [2], ("min_score",)),
        (SearchQuery("deploy", min_score=0.5), [2, 1, 4], ("min_score",)),
        (SearchQuery("deploy", limit=-5), [2], ()),
    ],
)
def test_which_are_shown(asked: SearchQuery, ids: list[int], facets: tuple[str, ...]) -> None:
    found = service(MESSAGES).search(asked)
    assert ([hit.message_id for hit in found.hits], found.explain.facets_applied) == (ids, facets)


def test_an_unknown_switch_is_an_error_at_the_start_and_none_is_none() -> None:
    with pytest.raises(UnknownName, match="fts5, tantivy, shadow, hybrid, hybrid_rerank"):
        KillSwitch.read("elastic")
    assert [KillSwitch.read(at) for at in (None, "", "shadow")] == [None, None, KillSwitch.SHADOW]


QUERY = SearchQuery("deployment review br-2tnl", limit=7)


def shadowed(post: Whole, observer: Observer) -> Whole:
    under = replace(post.service, switch=KillSwitch.SHADOW, observer=observer)
    return replace(post, service=under)


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("scope", [None, viewer("Ann", frozenset({1}), frozenset())])
def test_no_caller_waits_for_the_shadow(post: Whole, scope: Scope | None, *, explain: bool) -> None:
    shadow = Mock()
    shadow.search.side_effect = EngineError("whoever asks it waits")
    there = post.over({FallbackTier.TANTIVY: shadow})
    views = StoredViews(post.store, lambda *_: there.service.tiers.lexical, lambda _: {})
    here = replace(there, service=replace(there.service, views=views.of))
    query = replace(QUERY, explain=explain)
    waits = explain and scope is None
    assert shadowed(here, lambda *_: None).ask(query, scope).explain.shadow is None
    assert shadow.search.call_count == waits
    here.under(KillSwitch.SHADOW).ask(query, scope)
    assert shadow.search.call_count == waits + 1


def test_what_the_shadow_cannot_be_asked_is_not_told(post: Whole) -> None:
    told: list[tuple[SearchQuery, contract.SearchResponse]] = []
    here = shadowed(post, lambda query, answer, _: told.append((query, answer)))
    first = here.ask(QUERY)
    assert told == [(QUERY, first)]
    here.ask(replace(QUERY, cursor=first.next_cursor))
    here.ask(replace(QUERY, doc_kind=DocKind.AGENT))
    here.ask(QUERY, scopes.unrestricted())
    assert len(told) == 1
    here.ask(replace(QUERY, cursor="no token"))
    assert len(told) == 2


STEPS = int(os.environ.get("MAIL_SCOPE_STEPS", "60"))
HIDDEN = (0, 9, 60)
"""Messages that are hidden in each world; the visible ones are the same forty."""
TEXTS = (
    "", "merger", "deployment", "the deployment failed", "review br-2tnl", "+merger review",
    '"secret task"', "deploy*", "index 部署", "review -merger", "NOT", "((", "AmberFox", "harbour",
)  # fmt: skip
MAYBE_AGENT = st.none() | st.sampled_from((*AGENTS, "nobody"))
QUERIES = st.builds(
    SearchQuery,
    text=st.sampled_from(TEXTS),
    mode=st.sampled_from(contract.SearchMode),
    doc_kind=st.sampled_from([DocKind.MESSAGE] * 4 + [DocKind.AGENT, DocKind.PROJECT]),
    project_id=st.sampled_from([None, None, 1, 2, 99]),
    product_id=st.sampled_from([None, None, 1, 2]),
    importance=st.sampled_from([(), (), (Importance.HIGH,)]),
    direction=st.none() | st.sampled_from(contract.Direction),
    agent_name=MAYBE_AGENT,
    thread_id=st.sampled_from([None, None, *THREADS]),
    sender_name=MAYBE_AGENT,
    recipient_name=MAYBE_AGENT,
    min_score=st.sampled_from([None, None, 0.0, 0.3, 0.8]),
    ranking=st.sampled_from(RankingMode),
    limit=st.sampled_from([1, 3, 10, None]),
    explain=st.booleans(),
)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, ...]]:
    folder = tmp_path_factory.mktemp("worlds")
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(world(folder / str(hidden), 5, hidden)) for hidden in HIDDEN
        )


@settings(
    deadline=None, max_examples=STEPS, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=QUERIES, switch=st.none() | st.sampled_from(KillSwitch), pages=st.integers(1, 3))
def test_every_page_of_a_search_is_the_same_bytes(
    worlds: tuple[World, ...], query: SearchQuery, switch: KillSwitch | None, pages: int
) -> None:
    for _ in range(pages):
        first, *others = (one.answer(query, switch) for one in worlds)
        assert all(other == first for other in others)
        cursor = json.loads(first)["next_cursor"]
        if cursor is None:
            break
        query = replace(query, cursor=cursor)


def test_a_viewer_knows_agents_elsewhere_by_their_names_alone(worlds: tuple[World, ...]) -> None:
    mail, query = worlds[-1].mail, SearchQuery("secret", doc_kind=DocKind.AGENT)
    known = mail.ask(query, EYE).entities
    assert {hit.entity.project_id for hit in known if "Amber" not in str(hit)} == {1}
    assert len(mail.ask(query).entities) > len(known) > 0


@pytest.mark.parametrize("said", [None, "deny", "allow", True, 0, "ALLOW", OSError("/etc/policy")])
def test_whatever_is_not_allow_itself_denies(worlds: tuple[World, ...], said: object) -> None:
    def verdict(_: object) -> Visibility:
        if isinstance(said, OSError):
            raise said
        return cast("Visibility", said)

    for audited in (False, True):
        found = worlds[-1].mail.ask(SearchQuery("merger"), Scope("wrong", verdict, audited=audited))
        assert found.hits == ()
        assert audited or found.explain.denied_count == 0
        assert "policy" not in found.explain.note


def test_a_view_follows_its_messages_and_a_revoked_verdict_at_once(tmp_path: Path) -> None:
    with world(tmp_path / "moving", 3, 4) as moving:
        mail = moving.mail
        changing.insert(mail.store, one(3, "freshly harboured"))
        fresh = SearchQuery("harboured")
        assert mail.ids(fresh, EYE) == [3]
        changing.delete(mail.store, 3)
        assert mail.ids(fresh, EYE) == []
        shown = [Visibility.ALLOW]
        open_to_all = Scope("revoked", lambda _: shown[0])
        assert mail.ids(SearchQuery("merger"), open_to_all) != []
        shown[0] = Visibility.DENY
        assert mail.ids(SearchQuery("merger"), open_to_all) == []


WEIGHTS = contract.Weights(subject=2, identifiers=4)
AGENT, PROJECT = DocKind.AGENT, DocKind.PROJECT


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


def named(search_response: contract.SearchResponse) -> list[str]:
    """Names of agents and slugs of projects."""
    assert search_response.hits == ()
    kept = (hit.entity for hit in search_response.entities)
    return [entity.name if isinstance(entity, contract.Agent) else entity.slug for entity in kept]


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
    assert sorted(named(found)) == expected
    assert {hit.doc_kind for hit in found.entities} <= {kind}
    assert (found.explain.engine, found.explain.method) == ("fts5", "fts5")
    assert not found.degraded


def test_only_the_project_filters_entities(search: MailSearch) -> None:
    nobody = ("agent_name", "sender_name", "recipient_name", "thread_id")
    of_messages = replace(
        SearchQuery("messages", doc_kind=AGENT, product_id=3, ack_required=True),
        **dict.fromkeys(nobody, "nobody"),  # type: ignore[arg-type]
        importance=(Importance.URGENT,),
        direction=contract.Direction.INBOX,
        time_range=contract.TimeRange(5, 4),
    )
    found = search.search(of_messages)
    plain = search.search(SearchQuery("messages", doc_kind=AGENT))
    assert found.entities == plain.entities != ()
    assert (found.explain.facets_applied, found.explain.facet_count) == ((), 0)
    assert found.explain.note == ""
    within = search.search(replace(of_messages, project_id=2))
    assert sorted(named(within)) == ["OchreWolf", "TealOtter"]
    assert within.explain.facets_applied == ("project_id",)
    listed = search.search(SearchQuery("", doc_kind=PROJECT, project_id=9, thread_id="none"))
    assert named(listed) == ["data-tools"]
    nothing = search.search(SearchQuery("", doc_kind=PROJECT, thread_id="none"))
    assert "the query is empty" in nothing.explain.note


def test_the_index_follows_what_is_written(search: MailSearch, known: MessageStore) -> None:
    def names(text: str, kind: DocKind) -> list[str]:
        return named(search.search(SearchQuery(text, doc_kind=kind)))

    listed = Directory(known)
    listed.register(1, "AmberFox", task_description="digs wells_2")
    assert names("indexes", AGENT) == []
    assert names("wells_2", AGENT) == names("amberfox", AGENT) == ["AmberFox"]
    listed.describe(contract.MailProject(9, "data-tools", "", "moss"))
    assert names("indexes", PROJECT) == []
    assert names("moss", PROJECT) == names("data-tools", PROJECT) == ["data-tools"]
    changing.insert(known, one(2, sender_name="NewComer", recipients=("AmberFox",)))
    assert names("newcomer", AGENT) == ["NewComer"]
    assert names("wells_2", AGENT) == ["AmberFox"]


def test_vectors_words_fusion_and_reranking_follow_each_other(post: Whole) -> None:
    """What is reranked are the first of the fused list, in its order."""
    tiers, asked = post.service.tiers, Mock()
    asked.attach_mock(Mock(wraps=tiers.lexical[FallbackTier.TANTIVY]), "words")
    asked.attach_mock(Mock(wraps=tiers.semantic), "vectors")
    asked.attach_mock(Mock(wraps=tiers.reranker), "reranking")
    recorded = replace(
        tiers,
        lexical={FallbackTier.TANTIVY: asked.words},
        semantic=asked.vectors,
        reranker=asked.reranking,
    )
    query = SearchQuery(
        "deployment review", mode=contract.SearchMode.HYBRID_RERANK, rerank_top_k=10
    )
    found = replace(post.service, tiers=recorded).search(query)
    assert found.served_by == FallbackTier.RERANK
    names = [name for name, _, _ in asked.mock_calls]
    assert names == ["vectors.search", "words.search", "reranking"]
    _, ids, _ = asked.reranking.call_args.args
    assert [*ids] == post.ids(replace(query, mode=contract.SearchMode.HYBRID, limit=10))


@pytest.mark.parametrize(
    ("text", "kept", "note"),
    [
        ("deployment " * 700, "deployment", None),
        ('"Plan" plan +plan ' * 700, '"Plan"', None),
        ('"' + "a b " * 400 + '"', f'"{" ".join("ab" * (plan.MAX_WORDS // 2))}"', None),
        (" ".join(f"a{chr(0x2600 + at)}" for at in range(150)), None, "300 words"),
    ],
    ids=["one word", "one phrase", "a long phrase is cut and stays a phrase", "emoji are words"],
)
def test_a_long_text_is_bounded(text: str, kept: str | None, note: str | None) -> None:
    found, said = plan.bounded(text)
    assert kept is None or found.split() == kept.split()
    assert note is None or said.startswith(note)
    assert sum(len(clause.words) for clause in clauses(found)) <= plan.MAX_WORDS


@pytest.mark.parametrize("engine", ["fts5", "tantivy"])
def test_recency_keeps_scores(store: MessageStore, mail: Mail, tmp_path: Path, engine: str) -> None:
    asked: contract.MailEngine = (
        Fts5Engine(store, WEIGHTS)
        if engine == "fts5"
        else built(tmp_path / "mail", mail.messages).engine
    )
    text = "deployment review br-2tnl failed"

    def scores(ranking: RankingMode, depth: int) -> dict[int, float]:
        hits = of_lexical(
            asked.search(text, contract.Filters(project_id=2), ranking, depth),
            contract.ExplainTiming(),
        ).hits
        return {hit[0]: hit[1] for hit in hits}

    whole = scores(RankingMode.RELEVANCE, 1_000)
    assert scores(RankingMode.RECENCY, 1_000) == pytest.approx(whole, abs=1e-12)
    for depth in (1, 2, 3, 5, 8):
        few = scores(RankingMode.RECENCY, depth)
        assert few == pytest.approx({at: whole[at] for at in few}, abs=1e-12)
    assert max(scores(RankingMode.RECENCY, 1).values()) < 1.0


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**62), 2**62))
def test_a_cursor_reads_back_bit_for_bit(score: float, message_id: int) -> None:
    assert SearchCursor.decode(SearchCursor(score, message_id).encode()) is not None
    for engine, seen in product(FallbackTier, ((), (3,), (-(2**63), -1, 0, 7, 2**63 - 1))):
        query = "0123456789abcdef" if seen else ""
        cursor = SearchCursor(score, message_id, engine, query, frozenset(seen))
        assert SearchCursor.decode(cursor.encode()) == cursor


def test_the_wire_format_is_the_specifications() -> None:
    assert SearchCursor(0.5, 42).encode() == "s3fe0000000000000:i42"
    assert SearchCursor(0.5, 42, FallbackTier.TANTIVY).encode() == "s3fe0000000000000:i42:etantivy"
    ends = (":elike:b1,2", ":elike:q0123456789abcdef", ":elike:q0123456789abcdef:xAB")
    for bad in ("", "s7ff8000000000000:i1", *(f"s3fe0000000000000:i1{end}" for end in ends)):
        assert SearchCursor.decode(bad) is None


def test_a_hit_shows_each_field_of_its_message_and_the_engines_score(post: Whole) -> None:
    hits = post.ask(QUERY).hits
    found = post.tantivy.search(QUERY.text, contract.Filters(), QUERY.ranking, len(hits))
    known, raw = post.store.hydrate(hit.message_id for hit in hits), dict(found.candidates)
    for hit in hits:
        for name in contract.SearchHit._fields[:-3]:
            assert getattr(hit, name) == getattr(known[hit.message_id], name), name
        assert (hit.raw_score, hit.redacted) == (raw[hit.message_id], False)
    assert hits[0].score == 1.0 != hits[0].raw_score


def test_redaction_hides_subject_and_body_and_is_counted(post: Whole) -> None:
    seen = viewer("Zoë", frozenset({1}), frozenset({"AmberFox"}))
    query = SearchQuery("", sender_name="AmberFox", limit=1_000)
    verdicts = {m.message_id: seen.sees(m) for m in MAIL.messages if m.sender_name == "AmberFox"}
    found = post.ask(query, seen)
    assert [hit.message_id for hit in found.hits] == [*verdicts]
    for hit in found.hits:
        hidden = verdicts[hit.message_id] is Visibility.REDACT
        assert hit.redacted == hidden == ((hit.subject, hit.body) == (REDACTED, REDACTED))
    told = found.explain
    redacted = sum(hit.redacted for hit in found.hits)
    assert (told.denied_count, told.redacted_count) == (0, redacted)
    assert (told.scope_policy, 0 < redacted < len(verdicts)) == ("viewer:Zoë", True)
    everyone = SearchQuery("", importance=tuple(Importance), limit=1_000)
    denied = [m for m in MAIL.messages if seen.sees(m) is Visibility.DENY]
    assert post.ask(everyone, seen).explain.denied_count == 0
    audited = post.ask(everyone, replace(seen, audited=True)).explain
    assert audited.denied_count == len(denied) > 0
