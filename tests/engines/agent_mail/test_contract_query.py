"""The contract of queries: the chain, explanations, events and the arm."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.core.engine import Answer
from harness.core.errors import ModelNotReady
from harness.core.records import Document
from harness_engines.contract import (
    EngineError,
    FeatureUnavailable,
    IndexUnavailable,
    InvalidQuery,
    SearchError,
)
from harness_engines.stacks.agent_mail import arm as arm_mail
from harness_engines.stacks.agent_mail.contract import (
    Direction,
    DocKind,
    Event,
    ExplainTiming,
    Importance,
    QueryExplain,
    RankingMode,
    SearchMode,
    SearchQuery,
    ShadowComparison,
    TimeRange,
    to_log,
)
from harness_engines.stacks.agent_mail.pipeline.plan import (
    MODE_OF,
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
    engine_chain,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.tantivy.index import HASH
from harness_engines.vector.embedder import Embedder, HashEmbedder
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import NOON, Mail, one, some_mail
from tests.make.mail.tantivy import upsert

MAIL = some_mail(51, 150)
TEXT = "deployment review br-2tnl"


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("query")
    build(folder, MAIL.messages)
    with whole(folder) as made:
        yield made


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (SearchMode, ["lexical", "semantic", "hybrid", "hybrid_rerank"]),
        (RankingMode, ["relevance", "recency"]),
        (Importance, ["low", "normal", "high", "urgent"]),
        (Direction, ["inbox", "outbox"]),
        (DocKind, ["message", "agent", "project"]),
        (KillSwitch, ["fts5", "tantivy", "shadow", "hybrid", "hybrid_rerank"]),
    ],
)
def test_names_on_the_wire_are_the_contracts(names: type[StrEnum], values: list[str]) -> None:
    assert [name.value for name in names] == values


def plain(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def test_every_field_but_the_text_has_the_default_of_v2() -> None:
    first, *others = fields(SearchQuery)
    assert first.name == "text"
    assert first.default is MISSING
    defaults = {field.name: plain(field) for field in others}
    named = {
        "mode": SearchMode.LEXICAL,
        "doc_kind": DocKind.MESSAGE,
        "ranking": RankingMode.RELEVANCE,
        "importance": (),
        "time_range": TimeRange(None, None),
        "explain": False,
    }
    unset = {
        "project_id", "product_id", "direction", "agent_name", "thread_id", "ack_required",
        "limit", "cursor", "sender_name", "recipient_name", "min_score", "rerank_top_k", "rrf_k",
    }  # fmt: skip
    assert defaults == named | dict.fromkeys(unset)


@pytest.mark.parametrize(
    ("asked", "held"), [(None, 50), (-1, 1), (0, 1), (1, 1), (1_000, 1_000), (1_001, 1_000)]
)
def test_the_limit(asked: int | None, held: int) -> None:
    assert SearchQuery("x", limit=asked).effective_limit == held


@pytest.mark.parametrize(
    ("asked", "held"), [(None, 100), (-1, 10), (9, 10), (10, 10), (1_000, 1_000), (1_001, 1_000)]
)
def test_the_candidates_to_rerank(asked: int | None, held: int) -> None:
    assert SearchQuery("x", rerank_top_k=asked).effective_rerank_top_k == held


@pytest.mark.parametrize(
    ("asked", "held"), [(None, 60), (-1, 1), (0, 1), (1, 1), (1_000, 1_000), (1_001, 1_000)]
)
def test_the_constant_of_fusion(asked: int | None, held: int) -> None:
    assert SearchQuery("x", rrf_k=asked).effective_rrf_k == held


def test_no_limit_shows_fifty(mail: Whole) -> None:
    assert len(mail.ids(SearchQuery("", ack_required=True))) == 50
    assert len(mail.ids(SearchQuery("", ack_required=True, limit=1_000))) > 50


def test_a_query_with_only_a_text_is_the_one_that_spells_the_defaults_out(mail: Whole) -> None:
    spelt = SearchQuery(
        TEXT,
        mode=SearchMode.LEXICAL,
        doc_kind=DocKind.MESSAGE,
        ranking=RankingMode.RELEVANCE,
        limit=50,
        rerank_top_k=100,
        rrf_k=60,
        min_score=None,
    )
    assert mail.ask(SearchQuery(TEXT)).hits == mail.ask(spelt).hits != ()


def scores(mail: Whole, query: SearchQuery) -> list[tuple[int, float]]:
    return [(hit.message_id, hit.score) for hit in mail.ask(query).hits]


@pytest.mark.parametrize("mode", SearchMode)
def test_the_constant_of_fusion_counts_only_where_there_is_fusion(
    mail: Whole, mode: SearchMode
) -> None:
    query = SearchQuery(TEXT, mode=mode, limit=1_000, rerank_top_k=10)
    changed = scores(mail, query) != scores(mail, replace(query, rrf_k=1))
    assert changed == (mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK})


@pytest.mark.parametrize("mode", SearchMode)
def test_the_candidates_to_rerank_count_only_where_one_reranks(
    mail: Whole, mode: SearchMode
) -> None:
    query = SearchQuery(TEXT, mode=mode, limit=1_000)
    changed = scores(mail, query) != scores(mail, replace(query, rerank_top_k=10))
    assert changed == (mode is SearchMode.HYBRID_RERANK)


@pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])
@pytest.mark.parametrize("text", ["deployment review", "  deployment\t \n review \0 "])
def test_white_space_around_and_within_does_not_count(
    mail: Whole, switch: KillSwitch | None, text: str
) -> None:
    served = mail.under(switch)
    assert served.ids(SearchQuery(text)) == served.ids(SearchQuery("deployment review")) != []


@pytest.mark.parametrize("mode", SearchMode)
def test_newest_first_in_every_mode(mail: Whole, mode: SearchMode) -> None:
    """Times tie often in this mail, so the second key counts too."""
    best = mail.ids(SearchQuery(TEXT, mode=mode, limit=1_000))
    recent = mail.ids(
        SearchQuery(TEXT, mode=mode, limit=1_000, ranking=RankingMode.RECENCY, rerank_top_k=1_000)
    )
    assert recent == by_time(best, MAIL)
    assert recent != best


def by_time(ids: list[int], of: Mail) -> list[int]:
    return sorted(ids, key=lambda at: (-of.by_id[at].created_ts, at))


LEXICAL = [FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE]
CHAINS = {
    SearchMode.HYBRID_RERANK: [FallbackTier.RERANK, FallbackTier.HYBRID, *LEXICAL],
    SearchMode.HYBRID: [FallbackTier.HYBRID, *LEXICAL],
    SearchMode.SEMANTIC: [FallbackTier.SEMANTIC, *LEXICAL],
    SearchMode.LEXICAL: LEXICAL,
}
STEPS = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers))]
CHAIN_TEXT = "deployment review"


@pytest.fixture(scope="module")
def mail_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("chain")
    build(folder, some_mail(52, 80).messages)
    with whole(folder) as made:
        yield made


@pytest.mark.parametrize(("mode", "at"), STEPS)
def test_what_is_missing_gives_way_to_the_next(
    mail_chain: Whole, mode: SearchMode, at: int
) -> None:
    tiers = CHAINS[mode]
    mail_chain.log.events.clear()
    found = mail_chain.without(*tiers[:at]).ask(SearchQuery(CHAIN_TEXT, mode=mode))
    explain = found.explain
    assert found.hits
    assert (explain.engine, found.served_by) == (tiers[at], tiers[at])
    assert (explain.requested_mode, explain.actual_mode) == (mode, MODE_OF[tiers[at]])
    fell = MODE_OF[tiers[at]] is not mode
    assert explain.mode_downgraded == fell
    assert (explain.downgrade_reason is not None) == fell
    told = [payload for event, payload in mail_chain.log.events if event is Event.MODE_DOWNGRADE]
    assert len(told) == fell
    for payload in told:
        assert payload == {
            "requested": mode,
            "actual": explain.actual_mode,
            "reason": explain.downgrade_reason,
        }
    assert all(tier in explain.note for tier in tiers[:at])


@pytest.mark.parametrize("mode", SearchMode)
def test_without_any_engine_the_answer_is_empty_and_no_error(
    mail_chain: Whole, mode: SearchMode
) -> None:
    found = mail_chain.without(*FallbackTier).ask(SearchQuery(CHAIN_TEXT, mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert all(tier in found.explain.note for tier in CHAINS[mode])


@pytest.mark.parametrize("mode", SearchMode)
def test_unset_leaves_each_mode_its_own_chain_and_so_does_tantivy(mode: SearchMode) -> None:
    for switch in (None, KillSwitch.TANTIVY):
        assert list(engine_chain(mode, switch)) == CHAINS[mode]


@pytest.mark.parametrize("mode", SearchMode)
def test_fts5_is_forced_and_the_loss_of_a_mode_is_said(mail_chain: Whole, mode: SearchMode) -> None:
    found = mail_chain.under(KillSwitch.FTS5).ask(SearchQuery(CHAIN_TEXT, mode=mode))
    assert (found.explain.engine, found.explain.actual_mode) == ("fts5", "lexical")
    assert found.explain.mode_downgraded == (mode is not SearchMode.LEXICAL)


def test_auto_selects_by_what_is_there(mail_chain: Whole) -> None:
    def engine(served: Whole) -> str:
        return served.ask(SearchQuery(CHAIN_TEXT)).explain.engine

    assert engine(mail_chain) == "tantivy"
    assert engine(mail_chain.without(FallbackTier.TANTIVY)) == "fts5"


def test_the_four_kinds_of_failure_are_of_one_family() -> None:
    kinds = {InvalidQuery, IndexUnavailable, EngineError, FeatureUnavailable}
    assert set(SearchError.__subclasses__()) == kinds
    for kind in kinds:
        assert str(kind("in words")) == "in words"


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("text", ["", " \t", "\0"])
def test_nothing_asked_is_nothing_found_in_every_mode(
    mail_chain: Whole, mode: SearchMode, text: str
) -> None:
    found = mail_chain.ask(SearchQuery(text, mode=mode))
    assert found.hits == ()
    assert "the query is empty" in found.explain.note
    assert not found.explain.mode_downgraded


@pytest.mark.parametrize("mode", SearchMode)
def test_a_filter_alone_is_answered_in_every_mode(mail_chain: Whole, mode: SearchMode) -> None:
    wanted = mail_chain.ids(SearchQuery("", ack_required=True, limit=1_000))
    assert (
        mail_chain.ids(SearchQuery("", mode=mode, ack_required=True, limit=1_000)) == wanted != []
    )


EXPLAIN_MAIL = some_mail(55, 120)
EXPLAIN_TEXT = "deployment review"
PARTS = {
    SearchMode.LEXICAL: {"lexical_us"},
    SearchMode.SEMANTIC: {"vector_us"},
    SearchMode.HYBRID: {"lexical_us", "vector_us", "fusion_us"},
    SearchMode.HYBRID_RERANK: {"lexical_us", "vector_us", "fusion_us", "rerank_us"},
}


@pytest.fixture(scope="module")
def mail_explain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("explain")
    build(folder, EXPLAIN_MAIL.messages)
    with whole(folder) as made:
        yield made


def test_its_fields_are_the_contracts_and_a_note() -> None:
    assert [field.name for field in fields(QueryExplain)] == [
        "method", "normalized_query", "used_like_fallback", "facet_count", "facets_applied",
        "sql", "scope_policy", "denied_count", "redacted_count", "requested_mode",
        "actual_mode", "engine", "mode_downgraded", "downgrade_reason", "timing",
        "cursor_invalidated", "shadow", "note",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", SearchMode)
def test_the_time_of_each_part_that_ran_and_of_no_other(
    mail_explain: Whole, mode: SearchMode
) -> None:
    timing = mail_explain.ask(SearchQuery(EXPLAIN_TEXT, mode=mode)).explain.timing
    parts = {f.name: getattr(timing, f.name) for f in fields(ExplainTiming)}
    total, scope = parts.pop("total_us"), parts.pop("scope_us")
    assert {name for name, took in parts.items() if took is not None} == PARTS[mode]
    assert all(isinstance(took, int) for took in (total, scope))
    assert 0 <= sum(took or 0 for took in parts.values()) + scope <= total


@pytest.mark.parametrize(
    ("switch", "mode", "method"),
    [
        (KillSwitch.FTS5, SearchMode.LEXICAL, "fts5"),
        (None, SearchMode.LEXICAL, "tantivy"),
        (None, SearchMode.SEMANTIC, "vector"),
        (None, SearchMode.HYBRID, "hybrid_rrf"),
        (None, SearchMode.HYBRID_RERANK, "hybrid_rerank"),
    ],
)
def test_the_plan_is_named(
    mail_explain: Whole, switch: KillSwitch | None, mode: SearchMode, method: str
) -> None:
    explain = mail_explain.under(switch).ask(SearchQuery("  deployment  review", mode=mode)).explain
    assert explain.method == method
    assert not explain.used_like_fallback
    wanted = '"deployment" OR "review"' if method == "fts5" else "deployment review"
    assert explain.normalized_query == wanted


def test_the_sql_is_what_sqlite_was_asked_and_empty_elsewhere(mail_explain: Whole) -> None:
    query = SearchQuery(EXPLAIN_TEXT, thread_id="br-2tnl")
    by_fts5 = mail_explain.under(KillSwitch.FTS5).ask(query).explain
    assert "MATCH ?" in by_fts5.sql
    assert "m.thread_id = ?" in by_fts5.sql
    by_like = mail_explain.without(FallbackTier.TANTIVY, FallbackTier.FTS5).ask(query).explain
    assert "LIKE ?" in by_like.sql
    assert (by_like.used_like_fallback, by_like.normalized_query) == (True, None)
    assert mail_explain.ask(query).explain.sql == ""


@pytest.mark.parametrize(
    ("changed", "facets"),
    [
        ({}, ()),
        ({"project_id": 1}, ("project_id",)),
        ({"product_id": 1}, ("product_id",)),
        ({"project_id": 1, "product_id": 1}, ("project_id",)),
        ({"importance": (Importance.LOW, Importance.HIGH)}, ("importance",)),
        ({"direction": Direction.INBOX}, ()),
        ({"agent_name": "Zoë"}, ("agent_name",)),
        ({"direction": Direction.OUTBOX, "agent_name": "Zoë"}, ("direction", "agent_name")),
        ({"thread_id": "br-2tnl"}, ("thread_id",)),
        ({"ack_required": False}, ("ack_required",)),
        ({"time_range": TimeRange(NOON, None)}, ("time_range",)),
        ({"time_range": TimeRange(None, None)}, ()),
        ({"sender_name": "Zoë"}, ("sender_name",)),
        ({"recipient_name": "Zoë"}, ("recipient_name",)),
        ({"min_score": 0.1}, ("min_score",)),
        ({"sender_name": "Zoë", "recipient_name": "小林"}, ("sender_name", "recipient_name")),
    ],
)
def test_the_facets_applied_are_named_and_counted(
    mail_explain: Whole, changed: dict[str, object], facets: tuple[str, ...]
) -> None:
    explain = mail_explain.ask(replace(SearchQuery(EXPLAIN_TEXT), **changed)).explain  # type: ignore[arg-type]
    assert explain.facets_applied == facets
    assert explain.facet_count == len(facets)


def test_the_scope_and_what_it_kept_back_are_counted(mail_explain: Whole) -> None:
    query = SearchQuery(EXPLAIN_TEXT, limit=1_000)
    total = len(mail_explain.ids(query))
    verdicts = dict(zip(sorted(mail_explain.ids(query)), [*Visibility] * total, strict=False))
    found = mail_explain.ask(
        query, Scope("by thirds", lambda m: verdicts[m.message_id], audited=True)
    )
    denied = sum(verdict is Visibility.DENY for verdict in verdicts.values())
    redacted = sum(verdict is Visibility.REDACT for verdict in verdicts.values())
    assert found.explain.scope_policy == "by thirds"
    assert (found.explain.denied_count, found.explain.redacted_count) == (denied, redacted)
    assert len(found.hits) == total - denied
    assert sum(hit.redacted for hit in found.hits) == redacted > 5


def test_without_a_scope_everything_is_shown_and_explain_says_so(mail_explain: Whole) -> None:
    explain = mail_explain.ask(SearchQuery(EXPLAIN_TEXT)).explain
    assert explain.scope_policy == "unrestricted"
    assert (explain.denied_count, explain.redacted_count) == (0, 0)


@pytest.mark.parametrize("switch", [None, *KillSwitch])
def test_a_shadow_is_compared_only_in_shadow_mode(
    mail_explain: Whole, switch: KillSwitch | None
) -> None:
    explain = mail_explain.under(switch).ask(SearchQuery(EXPLAIN_TEXT)).explain
    assert (explain.shadow is not None) == (switch is KillSwitch.SHADOW)


def test_redaction_hides_subject_and_body_and_leaves_the_order(mail_explain: Whole) -> None:
    plain = mail_explain.ask(SearchQuery(EXPLAIN_TEXT))
    hidden = mail_explain.ask(
        SearchQuery(EXPLAIN_TEXT), Scope("all", lambda _: Visibility.REDACT, audited=True)
    )
    assert [hit.message_id for hit in hidden.hits] == [hit.message_id for hit in plain.hits]
    texts = {hit.subject for hit in hidden.hits} | {hit.body for hit in hidden.hits}
    assert texts == {"[redacted]"}


CARRIED = {
    "index.rebuild.start": {"doc_count", "engine"},
    "index.rebuild.complete": {"doc_count", "duration_ms", "engine"},
    "index.incremental.batch": {"batch_size", "engine"},
    "index.schema.mismatch": {"expected", "actual"},
    "search.mode.downgrade": {"requested", "actual", "reason"},
    "search.shadow.comparison": {field.name for field in fields(ShadowComparison)},
    "search.cursor.invalidated": {"cursor_engine", "current_engine"},
}


def test_everything_that_can_happen_is_told_with_what_the_contract_says(tmp_path: Path) -> None:
    build(tmp_path, some_mail(58, 40).messages)
    other = SearchCursor(0.5, 1, CursorEngine.FTS5).encode()
    with whole(tmp_path) as mail:
        (tmp_path / "tantivy" / HASH).write_text('{"sha256": "0"}')
        mail.ask(SearchQuery("review"))
        mail.tantivy.update_incremental([upsert(one(9_000, "moss"))])
        mail.without(FallbackTier.HYBRID).ask(SearchQuery("review", mode=SearchMode.HYBRID))
        mail.under(KillSwitch.SHADOW).ask(SearchQuery("review"))
        mail.ask(SearchQuery("review", cursor=other))
        told = {event.value: set(payload) for event, payload in mail.log.events}
        payloads = {event.value: payload for event, payload in mail.log.events}
    assert told == CARRIED
    assert payloads["index.rebuild.start"] == {"doc_count": 40, "engine": "tantivy"}
    assert payloads["index.incremental.batch"] == {"batch_size": 1, "engine": "tantivy"}


def test_there_is_no_event_of_the_contract_that_is_missing() -> None:
    assert set(CARRIED) <= {event.value for event in Event}


def test_an_event_is_logged_as_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="engines.mail"):
        to_log(Event.INCREMENTAL_BATCH, {"batch_size": 3, "engine": "tantivy"})
    (line,) = caplog.messages
    assert "\n" not in line
    assert json.loads(line) == {
        "event": "index.incremental.batch",
        "batch_size": 3,
        "engine": "tantivy",
    }


DOCUMENTS = [Document("a", "deployment failed", "br-2tnl"), Document("b", "lunch", "")]
SETTINGS = {
    "mode": "lexical",
    "search_engine": "",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "",
    "max_tokens": 64,
}


def arm(folder: Path, **changed: object) -> arm_mail.Mail:
    return arm_mail.Mail(
        arm_mail.MailSettings.model_validate({**SETTINGS, **changed}), folder / "cache"
    )


def answers(engine: arm_mail.Mail, folder: Path, *texts: str) -> list[Answer]:
    index = folder / "index"
    index.mkdir()
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        return [searcher.search(text, 5) for text in texts]


def test_words_need_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Embedder:
        raise ModelNotReady("no model may be opened here")

    monkeypatch.setattr("harness_engines.vector.embedder.model", none)
    monkeypatch.setattr("harness_engines.stacks.agent_mail.arm.embedder_of", none)
    (found,) = answers(arm(tmp_path), tmp_path, "deployment")
    assert [hit.doc_id for hit in found.hits] == ["a"]
    assert found.note == ""


@pytest.mark.parametrize("mode", ["semantic", "hybrid", "hybrid_rerank"])
def test_without_a_model_words_answer_and_the_arm_does_not_sign(tmp_path: Path, mode: str) -> None:
    index = tmp_path / "index"
    index.mkdir()
    engine = arm(tmp_path, mode=mode)
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        found = searcher.search("deployment", 5)
        assert [hit.doc_id for hit in found.hits] == ["a"]
        assert found.served_by != searcher.manifest.fingerprint
        assert "model" in found.note


def test_a_model_is_loaded_when_an_index_is_opened_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def counted(name: str, _: int) -> Embedder:
        loaded.append(name)
        return HashEmbedder(32)

    monkeypatch.setattr("harness_engines.stacks.agent_mail.arm.embedder_of", counted)
    index = tmp_path / "index"
    index.mkdir()
    engine = arm(tmp_path, mode="hybrid", embedder="hash")
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        before = len(loaded)
        for text in ("deployment", "lunch", "br-2tnl"):
            assert searcher.search(text, 5).hits
        assert len(loaded) == before > 0


@pytest.mark.parametrize("budget_ms", [float("nan"), float("inf"), -1.0])
def test_a_budget_that_is_no_time_is_refused(tmp_path: Path, budget_ms: float) -> None:
    with pytest.raises(ValidationError, match="budget_ms"):
        arm(tmp_path, budget_ms=budget_ms)
