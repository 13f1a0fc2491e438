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
    CandidateList,
    Direction,
    DocKind,
    Event,
    Filters,
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
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.engines.agent_mail.worlds import EYE, World, world
from tests.make.mail import changing
from tests.make.mail.messages import AGENTS, THREADS, one, some_mail

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


@pytest.mark.parametrize(
    "error", [IndexUnavailable("gone"), EngineError("bad"), RuntimeError("panic")]
)
def test_a_failing_engine_falls_to_the_next_and_explain_says_why(error: Exception) -> None:
    lexical: dict[FallbackTier, MailEngine] = {
        FallbackTier.TANTIVY: Failing("tantivy", error),
        FallbackTier.FTS5: Counting("fts5", MESSAGES),
        FallbackTier.LIKE: Counting("like", MESSAGES),
    }
    found = service(MESSAGES, lexical=lexical).search(SearchQuery("deploy"))
    assert shown(found) == [2, 1, 4]
    assert found.explain.engine == "fts5"
    assert str(error) in found.explain.note


def test_when_everything_fails_the_answer_is_empty_and_says_so() -> None:
    broken: dict[FallbackTier, MailEngine] = {
        tier: Failing(tier.value, RuntimeError(f"{tier} broke")) for tier in FallbackTier
    }
    found = service(MESSAGES, lexical=broken).search(SearchQuery("deploy"))
    assert found.hits == ()
    assert all(f"{tier} broke" in found.explain.note for tier in ("tantivy", "fts5", "like"))


def test_a_mode_without_its_model_is_served_lexically_and_reported() -> None:
    log = Log()
    for mode in (SearchMode.SEMANTIC, SearchMode.HYBRID, SearchMode.HYBRID_RERANK):
        found = service(MESSAGES, log=log).search(SearchQuery("deploy", mode=mode))
        assert shown(found) == [2, 1, 4]
        assert found.explain.mode_downgraded
        assert found.explain.requested_mode == mode
        assert found.explain.actual_mode == "lexical"
        assert "model" in (found.explain.downgrade_reason or "")
    assert [event for event, _ in log.events] == [Event.MODE_DOWNGRADE] * 3


def test_nothing_asked_is_an_empty_answer_with_a_note() -> None:
    found = service(MESSAGES).search(SearchQuery("  \t "))
    assert found.hits == ()
    assert "the query is empty" in found.explain.note


def test_a_filter_alone_lists_what_passes_it() -> None:
    found = service(MESSAGES).search(SearchQuery("", project_id=2))
    assert shown(found) == [3, 4]
    assert found.explain.facets_applied == ("project_id",)


def test_a_project_wins_over_a_product() -> None:
    found = service(MESSAGES).search(SearchQuery("deploy", project_id=2, product_id=7))
    assert found.explain.facets_applied == ("project_id",)
    assert shown(found) == [4]


def test_recency_orders_by_time_sent() -> None:
    found = service(MESSAGES).search(SearchQuery("deploy", ranking=RankingMode.RECENCY))
    assert shown(found) == [4, 2, 1]


def test_min_score_is_a_share_of_the_best_hit() -> None:
    assert shown(service(MESSAGES).search(SearchQuery("deploy", min_score=0.6))) == [2]
    assert shown(service(MESSAGES).search(SearchQuery("deploy", min_score=0.5))) == [2, 1, 4]


def test_the_limit_is_held_within_its_bounds() -> None:
    assert shown(service(MESSAGES).search(SearchQuery("deploy", limit=-5))) == [2]
    assert SearchQuery("x", limit=10**9).effective_limit == 1_000
    assert SearchQuery("x", rerank_top_k=1).effective_rerank_top_k == 10
    assert SearchQuery("x", rrf_k=0).effective_rrf_k == 1
    assert SearchQuery("x").effective_rrf_k == 60


def test_the_timing_of_the_parts_stays_within_the_total() -> None:
    timing = service(MESSAGES).search(SearchQuery("deploy")).explain.timing
    assert timing.lexical_us is not None
    assert timing.vector_us is None
    assert timing.lexical_us + (timing.scope_us or 0) <= timing.total_us


def test_a_score_that_is_no_number_is_an_engine_error() -> None:
    class Nan(Counting):
        def search(
            self, text: str, filters: Filters, ranking: RankingMode, depth: int
        ) -> CandidateList:
            found = super().search(text, filters, ranking, depth)
            bad = tuple(c._replace(raw_score=float("nan")) for c in found.candidates)
            return replace(found, candidates=bad)

    lexical: dict[FallbackTier, MailEngine] = {
        FallbackTier.TANTIVY: Nan("tantivy", MESSAGES),
        FallbackTier.FTS5: Counting("fts5", MESSAGES),
    }
    found = service(MESSAGES, lexical=lexical).search(SearchQuery("deploy"))
    assert found.explain.engine == "fts5"
    assert "nan" in found.explain.note


@pytest.mark.parametrize("mode", list(SearchMode))
def test_the_switch_fts5_and_shadow_serve_fts5_whatever_is_asked(mode: SearchMode) -> None:
    for switch in (KillSwitch.FTS5, KillSwitch.SHADOW):
        assert engine_chain(mode, switch) == (FallbackTier.FTS5, FallbackTier.LIKE)
        assert (
            service(MESSAGES, switch=switch).search(SearchQuery("deploy", mode=mode)).explain.engine
            == "fts5"
        )


@pytest.mark.parametrize(
    ("switch", "first"),
    [(KillSwitch.HYBRID, FallbackTier.HYBRID), (KillSwitch.HYBRID_RERANK, FallbackTier.RERANK)],
)
def test_a_switch_lifts_lexical_questions_and_no_others(
    switch: KillSwitch, first: FallbackTier
) -> None:
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
    assert KillSwitch.read(None) is None
    assert KillSwitch.read("") is None
    assert KillSwitch.read("shadow") is KillSwitch.SHADOW


def test_the_shadow_is_compared_and_its_failure_hidden() -> None:
    log = Log()
    found = service(MESSAGES, switch=KillSwitch.SHADOW, log=log).search(SearchQuery("deploy"))
    compared = found.explain.shadow
    assert compared is not None
    assert (compared.overlap_jaccard, compared.ndcg_at_10, compared.mrr_delta) == (1.0, 1.0, 0.0)
    broken: dict[FallbackTier, MailEngine] = {
        FallbackTier.TANTIVY: Failing("tantivy", RuntimeError("boom")),
        FallbackTier.FTS5: Counting("fts5", MESSAGES),
    }
    served = service(MESSAGES, lexical=broken, switch=KillSwitch.SHADOW, log=log)
    hidden = served.search(SearchQuery("deploy"))
    assert shown(hidden) == shown(found)
    assert hidden.explain.shadow is None
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


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("beside")
    build(folder, some_mail(56, 120).messages)
    with whole(folder) as made:
        yield made


def seen_by(
    mail: Whole, observer: ShadowObserver, switch: KillSwitch | None = KillSwitch.SHADOW
) -> Whole:
    return replace(mail, service=replace(mail.service, switch=switch, observer=observer))


def test_it_is_told_the_question_and_the_very_answer(mail: Whole) -> None:
    notes = Notes()
    answer = seen_by(mail, notes).ask(QUERY)
    ((query, found, elapsed_ns),) = notes.told
    assert query is QUERY
    assert found is answer
    assert 0 < elapsed_ns // 1000 <= answer.explain.timing.total_us
    assert answer.hits == mail.under(KillSwitch.FTS5).ask(QUERY).hits != ()


def test_its_failure_reaches_nobody(mail: Whole) -> None:
    notes = Notes(fails=True)
    answer = seen_by(mail, notes).ask(QUERY)
    assert notes.told
    assert answer.hits == mail.under(KillSwitch.FTS5).ask(QUERY).hits


@dataclass
class Slow:
    """Stands for a shadow that takes long: whoever asks it waits."""

    name = "tantivy"
    times: int = 0

    def search(self, *_: object) -> NoReturn:
        self.times += 1
        raise EngineError("past all patience")


def with_shadow(mail: Whole, shadow: Slow) -> Whole:
    """Put a shadow in Tantivy's place, for everyone."""

    def slowed(engines: Mapping[FallbackTier, MailEngine]) -> Mapping[FallbackTier, MailEngine]:
        return {**engines, FallbackTier.TANTIVY: cast("MailEngine", shadow)}

    made = mail.service
    engines = slowed(made.tiers.lexical)
    views = StoredViews(mail.store, lambda *_: engines, lambda _: {})
    tiers = replace(made.tiers, lexical=engines)
    return replace(mail, service=replace(made, tiers=tiers, views=views.of))


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("scope", [None, viewer("Ann", frozenset({1}), frozenset())])
def test_no_caller_waits_for_the_shadow(mail: Whole, scope: Scope | None, *, explain: bool) -> None:
    shadow = Slow()
    here = with_shadow(mail, shadow)
    query = replace(QUERY, explain=explain)
    waits = explain and scope is None
    assert seen_by(here, Notes()).ask(query, scope).explain.shadow is None
    assert shadow.times == waits
    here.under(KillSwitch.SHADOW).ask(query, scope)
    assert shadow.times == waits + 1


def test_who_asks_for_explain_is_told_how_the_shadow_answers(mail: Whole) -> None:
    told = seen_by(mail, Notes()).ask(replace(QUERY, explain=True)).explain.shadow
    assert told is not None
    assert told == mail.under(KillSwitch.SHADOW).ask(QUERY).explain.shadow


def test_what_the_shadow_cannot_be_asked_is_not_told(mail: Whole) -> None:
    notes = Notes()
    here = seen_by(mail, notes)
    first = here.ask(QUERY)
    notes.told.clear()
    here.ask(replace(QUERY, cursor=first.next_cursor))
    here.ask(replace(QUERY, doc_kind=DocKind.AGENT))
    here.ask(QUERY, unrestricted())
    assert notes.told == []
    here.ask(replace(QUERY, cursor="no token"))
    assert len(notes.told) == 1


@pytest.mark.parametrize("switch", [None, *sorted(set(KillSwitch) - {KillSwitch.SHADOW})])
def test_under_another_switch_nothing_is_told(mail: Whole, switch: KillSwitch | None) -> None:
    notes = Notes()
    seen_by(mail, notes, switch).ask(QUERY)
    assert notes.told == []


@pytest.fixture
def mail_views(tmp_path: Path) -> Iterator[Whole]:
    build(tmp_path, some_mail(8, 30).messages)
    with whole(tmp_path) as opened:
        yield opened


def view(mail: Whole, agent: str) -> View:
    return mail.service.view_of(viewer(agent, frozenset(), frozenset()))


def test_equal_scopes_share_a_view_and_the_oldest_go(
    mail_views: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    first = view(mail_views, "AmberFox")
    assert view(mail_views, "AmberFox") is first
    for other in ("TealOtter", "Zoë"):
        view(mail_views, other)
    assert view(mail_views, "AmberFox") is not first


def test_a_view_that_is_not_kept_leaves_no_file(
    mail_views: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = view(mail_views, "AmberFox")
    (folder,) = place().iterdir()
    assert place().stat().st_mode & 0o077 == 0
    del made
    changing.delete(mail_views.store, mail_views.ids(SearchQuery("", project_id=1))[0])
    kept = view(mail_views, "AmberFox")
    gc.collect()
    (left,) = place().iterdir()
    assert left != folder
    assert kept.documents < 30


def test_a_scope_without_views_sees_nothing(mail_views: Whole) -> None:
    scope = viewer("AmberFox", frozenset({1}), frozenset())
    blind = nothing(scope)
    assert (blind.documents, blind.hydrate([1]), blind.projects_of(1)) == (0, {}, frozenset())
    assert blind.names.project_called("harbour") is blind.names.product_called("product-1") is None
    found = mail_views.service.within(blind).search(SearchQuery("review"))
    assert (found.hits, found.explain.engine) == ((), "like")


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
    deadline=None,
    max_examples=STEPS,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
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
def test_every_answer_of_the_tool_is_the_same_bytes(
    worlds: tuple[World, ...], mode: SearchMode, text: str, key: str
) -> None:
    asked = {"query": text, "project_key": key, "sender": "" if text else "SlateHeron"}
    said = {one.tool(mode, explain=True, **asked) for one in worlds}
    assert len(said) == 1


PREFIXES = st.one_of(
    st.text(max_size=12),
    st.sampled_from((
        "re",
        "de",
        "deployment fa",
        "mer",
        "部",
        "sec",
        "a" * 50_000,
        "de*",
        "-de",
        "re (",
    )),
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=3),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=STEPS)
@given(
    prefix=PREFIXES,
    limit=st.integers(1, 50),
    key=st.sampled_from(["*", "harbour", "quarry", "no such"]),
)
def test_every_completed_subject_is_the_same_bytes(
    worlds: tuple[World, ...], prefix: str, limit: int, key: str
) -> None:
    assert len({one.completed(prefix, limit, key) for one in worlds}) == 1


@pytest.mark.slow
def test_a_beginning_completes_subjects_of_what_is_shown(worlds: tuple[World, ...]) -> None:
    (said,) = {one.completed("re", 50) for one in worlds}
    shown = [one["subject"] for one in json.loads(said)["subjects"]]
    assert shown
    assert all(any(word.startswith("re") for word in text.lower().split()) for text in shown)


@pytest.mark.slow
def test_the_worlds_do_differ(worlds: tuple[World, ...]) -> None:
    found = [len(one.mail.ids(SearchQuery("merger", limit=1000))) for one in worlds]
    assert found == [0, 9, 60]
    orders = {tuple(one.mail.ids(SearchQuery("the deployment failed"))) for one in worlds}
    assert len(orders) == len(worlds)


@pytest.mark.slow
def test_what_is_registered_of_a_hidden_project_is_hidden(worlds: tuple[World, ...]) -> None:
    query = SearchQuery("secret", doc_kind=DocKind.AGENT)
    known = worlds[-1].mail.ask(query, EYE).entities
    assert {hit.entity.project_id for hit in known if "Amber" not in str(hit)} == {1}
    assert len(worlds[-1].mail.ask(query).entities) > len(known) > 0


@pytest.mark.slow
@pytest.mark.parametrize("said", [None, "deny", "allow", True, 0, "ALLOW"])
def test_whatever_is_not_allow_itself_denies(worlds: tuple[World, ...], said: object) -> None:
    wrong = Scope("wrong", lambda _: said)  # type: ignore[arg-type, return-value]
    found = worlds[-1].mail.ask(SearchQuery("the deployment failed"), wrong)
    assert (found.hits, found.explain.denied_count) == ((), 0)
    audited = replace(wrong, audited=True)
    assert worlds[-1].mail.ask(SearchQuery("merger"), audited).hits == ()


@pytest.mark.slow
def test_a_policy_that_fails_denies_and_tells_no_caller(worlds: tuple[World, ...]) -> None:
    def verdict(message: object) -> Visibility:
        raise OSError(f"/etc/policy: {message}")

    found = worlds[-1].mail.ask(SearchQuery("merger"), Scope("broken", verdict))
    assert found.hits == ()
    assert "policy" not in str(found.explain.note)


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
