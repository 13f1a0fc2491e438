"""The service: modes, switches, shadows, and what a viewer may see."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import UnknownName
from harness.core.files import place
from harness_engines.contract import EngineError, FeatureUnavailable, IndexUnavailable, InvalidQuery
from harness_engines.stacks.agent_mail import views
from harness_engines.stacks.agent_mail.contract import (
    Direction,
    DocKind,
    Importance,
    MailEngine,
    RankingMode,
    SearchMode,
    SearchQuery,
    SearchResponse,
)
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch, engine_chain
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, unrestricted, viewer
from harness_engines.stacks.agent_mail.service import ShadowObserver
from harness_engines.stacks.agent_mail.views import StoredViews, View, nothing, plain
from tests.engines.agent_mail.fakes import Counting, Failing, Log, message, service
from tests.engines.agent_mail.whole import EYE, Whole, World, build, whole, world
from tests.make import mail_changing as changing
from tests.make.mail_messages import AGENTS, THREADS, one, some_mail

MESSAGES = [
    message(1, "deploy failed"),
    message(2, "deploy deploy done", sender="Cid"),
    message(3, "lunch", project=2),
    message(4, "deploy", project=2),
]


def shown(search_response: SearchResponse) -> list[int]:
    return [hit.message_id for hit in search_response.hits]


def test_a_lexical_question_is_served_by_tantivy_best_first_and_equal_ones_by_id() -> None:
    found = service(MESSAGES).search(SearchQuery("deploy"))
    assert shown(found) == [2, 1, 4]
    assert [hit.score for hit in found.hits] == [1.0, 0.5, 0.5]
    assert [hit.raw_score for hit in found.hits] == [2.0, 1.0, 1.0]
    assert (found.explain.engine, found.explain.actual_mode) == ("tantivy", "lexical")
    assert not found.degraded


def falling(error: Exception) -> dict[FallbackTier, MailEngine]:
    """Make engines of which Tantivy fails."""
    fts5, like = (Counting(tier, MESSAGES) for tier in ("fts5", "like"))
    broken = Failing("tantivy", error)
    return {FallbackTier.TANTIVY: broken, FallbackTier.FTS5: fts5, FallbackTier.LIKE: like}


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
    assert (shown(found), found.explain.facets_applied) == (ids, facets)


@pytest.mark.parametrize("mode", list(SearchMode))
@pytest.mark.parametrize("switch", [KillSwitch.FTS5, KillSwitch.SHADOW])
def test_fts5_and_shadow_are_served_by_fts5(mode: SearchMode, switch: KillSwitch) -> None:
    assert engine_chain(mode, switch) == (FallbackTier.FTS5, FallbackTier.LIKE)
    found = service(MESSAGES, switch=switch).search(SearchQuery("deploy", mode=mode))
    assert found.explain.engine == "fts5"


@pytest.mark.parametrize(
    ("switch", "first"),
    [(KillSwitch.HYBRID, FallbackTier.HYBRID), (KillSwitch.HYBRID_RERANK, FallbackTier.RERANK)],
)
def test_a_switch_lifts_lexical_queries(switch: KillSwitch, first: FallbackTier) -> None:
    assert engine_chain(SearchMode.LEXICAL, switch)[0] is first
    assert engine_chain(SearchMode.SEMANTIC, switch)[0] is FallbackTier.SEMANTIC
    assert engine_chain(SearchMode.HYBRID, switch)[0] is FallbackTier.HYBRID
    assert engine_chain(SearchMode.HYBRID_RERANK, switch)[0] is FallbackTier.RERANK
    assert engine_chain(SearchMode.LEXICAL, switch, DocKind.AGENT) == (
        FallbackTier.FTS5,
        FallbackTier.LIKE,
    )


def test_an_unknown_switch_is_an_error_at_the_start_and_none_is_none() -> None:
    with pytest.raises(UnknownName, match="fts5, tantivy, shadow, hybrid, hybrid_rerank"):
        KillSwitch.read("elastic")
    assert [KillSwitch.read(at) for at in (None, "", "shadow")] == [None, None, KillSwitch.SHADOW]


def test_the_failure_of_a_shadow_is_hidden() -> None:
    log = Log()
    broken = falling(RuntimeError("boom"))
    served = service(MESSAGES, lexical=broken, switch=KillSwitch.SHADOW, log=log)
    hidden = served.search(SearchQuery("deploy"))
    assert (shown(hidden), hidden.explain.shadow) == ([2, 1, 4], None)
    assert "boom" not in hidden.explain.note
    assert "boom" in str(log.events[-1])


QUERY = SearchQuery("deployment review br-2tnl", limit=7)


@dataclass
class Notes:
    """Keeps what it is told, and may fail at it."""

    fails: bool = False
    told: list[tuple[SearchQuery, SearchResponse, int]] = field(default_factory=list)

    def served(self, query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        self.told.append((query, search_response, elapsed_ns))
        if self.fails:
            raise RuntimeError("no room to write")


def seen_by(
    post: Whole, observer: ShadowObserver, switch: KillSwitch | None = KillSwitch.SHADOW
) -> Whole:
    return replace(post, service=replace(post.service, switch=switch, observer=observer))


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_told_the_question_and_the_very_answer(post: Whole, *, fails: bool) -> None:
    notes = Notes(fails)
    answer = seen_by(post, notes).ask(QUERY)
    ((query, found, elapsed_ns),) = notes.told
    assert (query, found) == (QUERY, answer)
    assert 0 < elapsed_ns // 1000 <= answer.explain.timing.total_us
    assert answer.hits == post.under(KillSwitch.FTS5).ask(QUERY).hits != ()


@dataclass
class Slow:
    """Stands for a shadow that takes long: whoever asks it waits."""

    name = "tantivy"
    times: int = 0

    def search(self, *_: object) -> NoReturn:
        self.times += 1
        raise EngineError("past all patience")


def with_shadow(post: Whole, shadow: Slow) -> Whole:
    """Put a shadow in Tantivy's place, for everyone."""

    def slowed(engines: Mapping[FallbackTier, MailEngine]) -> Mapping[FallbackTier, MailEngine]:
        return {**engines, FallbackTier.TANTIVY: cast("MailEngine", shadow)}

    made = post.service
    engines = slowed(made.tiers.lexical)
    views = StoredViews(post.store, lambda *_: engines, lambda _: {})
    tiers = replace(made.tiers, lexical=engines)
    return replace(post, service=replace(made, tiers=tiers, views=views.of))


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("scope", [None, viewer("Ann", frozenset({1}), frozenset())])
def test_no_caller_waits_for_the_shadow(post: Whole, scope: Scope | None, *, explain: bool) -> None:
    shadow = Slow()
    here = with_shadow(post, shadow)
    query = replace(QUERY, explain=explain)
    waits = explain and scope is None
    assert seen_by(here, Notes()).ask(query, scope).explain.shadow is None
    assert shadow.times == waits
    here.under(KillSwitch.SHADOW).ask(query, scope)
    assert shadow.times == waits + 1


@pytest.mark.parametrize("switch", [None, *sorted(KillSwitch)])
def test_only_under_its_switch_is_the_shadow_told(post: Whole, switch: KillSwitch | None) -> None:
    notes = Notes()
    told = seen_by(post, notes, switch).ask(replace(QUERY, explain=True)).explain.shadow
    shadow = switch is KillSwitch.SHADOW
    assert told == (post.under(KillSwitch.SHADOW).ask(QUERY).explain.shadow if shadow else None)
    assert len(notes.told) == shadow


def test_what_the_shadow_cannot_be_asked_is_not_told(post: Whole) -> None:
    notes = Notes()
    here = seen_by(post, notes)
    first = here.ask(QUERY)
    notes.told.clear()
    here.ask(replace(QUERY, cursor=first.next_cursor))
    here.ask(replace(QUERY, doc_kind=DocKind.AGENT))
    here.ask(QUERY, unrestricted())
    assert notes.told == []
    here.ask(replace(QUERY, cursor="no token"))
    assert len(notes.told) == 1


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Whole]:
    build(tmp_path, some_mail(8, 30).messages)
    with whole(tmp_path) as opened:
        yield opened


def view(post: Whole, agent: str) -> View:
    return post.service.view_of(viewer(agent, frozenset(), frozenset()))


def test_no_view_file_is_left(mail: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = view(mail, "AmberFox")
    (folder,) = place().iterdir()
    assert place().stat().st_mode & 0o077 == 0
    del made
    changing.delete(mail.store, mail.ids(SearchQuery("", project_id=1))[0])
    kept = view(mail, "AmberFox")
    gc.collect()
    (left,) = place().iterdir()
    assert left != folder
    assert kept.documents < 30


def test_equal_scopes_share_a_view(mail: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = viewer("AmberFox", frozenset({1}), frozenset())
    blind = nothing(scope)
    assert (blind.documents, blind.hydrate([1]), blind.projects_of(1)) == (0, {}, frozenset())
    assert blind.names.project_called("harbour") is blind.names.product_called("product-1") is None
    found = mail.service.within(blind).search(SearchQuery("review"))
    assert (found.hits, found.explain.engine) == ((), "like")
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    first = view(mail, "AmberFox")
    assert view(mail, "AmberFox") is first
    for other in ("TealOtter", "Zoë"):
        view(mail, other)
    assert view(mail, "AmberFox") is not first


@pytest.mark.parametrize("kind", [FeatureUnavailable, IndexUnavailable, EngineError])
def test_a_viewer_reads_the_kind_of_a_failure_alone(kind: type[FeatureUnavailable]) -> None:
    assert "secret" not in plain(kind("/srv/secret"))
    assert plain(InvalidQuery("no text")) == "no text"


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
    mode=st.sampled_from(SearchMode),
    doc_kind=st.sampled_from([DocKind.MESSAGE] * 4 + [DocKind.AGENT, DocKind.PROJECT]),
    project_id=st.sampled_from([None, None, 1, 2, 99]),
    product_id=st.sampled_from([None, None, 1, 2]),
    importance=st.sampled_from([(), (), (Importance.HIGH,)]),
    direction=st.none() | st.sampled_from(Direction),
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("text", ["merger", "the deployment failed", "", "project:quarry review"])
@pytest.mark.parametrize("key", ["*", "harbour", "quarry"])
def test_tool_answers_are_equal(
    worlds: tuple[World, ...], mode: SearchMode, text: str, key: str
) -> None:
    asked = {"query": text, "project_key": key, "sender": "" if text else "SlateHeron"}
    said = {one.tool(mode, explain=True, **asked) for one in worlds}
    assert len(said) == 1


BEGINNINGS = ("re", "de", "deployment fa", "mer", "部", "sec", "a" * 50_000, "de*", "-de", "re (")
PREFIXES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(BEGINNINGS),
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=3),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=STEPS)
@given(
    prefix=PREFIXES,
    limit=st.integers(1, 50),
    key=st.sampled_from(["*", "harbour", "quarry", "no such"]),
)
def test_completions_are_equal(
    worlds: tuple[World, ...], prefix: str, limit: int, key: str
) -> None:
    assert len({one.completed(prefix, limit, key) for one in worlds}) == 1


@pytest.mark.slow
def test_the_worlds_do_differ(worlds: tuple[World, ...]) -> None:
    found = [len(one.mail.ids(SearchQuery("merger", limit=1000))) for one in worlds]
    assert found == [0, 9, 60]
    orders = {tuple(one.mail.ids(SearchQuery("the deployment failed"))) for one in worlds}
    assert len(orders) == len(worlds)
    (said,) = {one.completed("re", 50) for one in worlds}
    shown = [one["subject"] for one in json.loads(said)["subjects"]]
    assert shown
    assert all(any(word.startswith("re") for word in text.lower().split()) for text in shown)
    query = SearchQuery("secret", doc_kind=DocKind.AGENT)
    known = worlds[-1].mail.ask(query, EYE).entities
    assert {hit.entity.project_id for hit in known if "Amber" not in str(hit)} == {1}
    assert len(worlds[-1].mail.ask(query).entities) > len(known) > 0


@pytest.mark.slow
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


@pytest.mark.slow
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
