"""What ``explained`` says of a question: the plan, the facets, the scope, the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from engines.stacks.agent_mail.contract import (
    Direction,
    ExplainTiming,
    Importance,
    QueryExplain,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import NOON, some_mail

MAIL = some_mail(55, 120)
TEXT = "deployment review"
PARTS = {
    SearchMode.LEXICAL: {"lexical_us"},
    SearchMode.SEMANTIC: {"vector_us"},
    SearchMode.HYBRID: {"lexical_us", "vector_us", "fusion_us"},
    SearchMode.HYBRID_RERANK: {"lexical_us", "vector_us", "fusion_us", "rerank_us"},
}


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("explain")
    build(folder, MAIL.messages)
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
def test_the_time_of_each_part_that_ran_and_of_no_other(mail: Whole, mode: SearchMode) -> None:
    timing = mail.ask(SearchQuery(TEXT, mode=mode)).explain.timing
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
    mail: Whole, switch: KillSwitch | None, mode: SearchMode, method: str
) -> None:
    explain = mail.under(switch).ask(SearchQuery("  deployment  review", mode=mode)).explain
    assert explain.method == method
    assert not explain.used_like_fallback
    wanted = '"deployment" OR "review"' if method == "fts5" else "deployment review"
    assert explain.normalized_query == wanted


def test_the_sql_is_what_sqlite_was_asked_and_empty_elsewhere(mail: Whole) -> None:
    query = SearchQuery(TEXT, thread_id="br-2tnl")
    by_fts5 = mail.under(KillSwitch.FTS5).ask(query).explain
    assert "MATCH ?" in by_fts5.sql
    assert "m.thread_id = ?" in by_fts5.sql
    by_like = mail.without(FallbackTier.TANTIVY, FallbackTier.FTS5).ask(query).explain
    assert "LIKE ?" in by_like.sql
    assert (by_like.used_like_fallback, by_like.normalized_query) == (True, None)
    assert mail.ask(query).explain.sql == ""


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
    mail: Whole, changed: dict[str, object], facets: tuple[str, ...]
) -> None:
    explain = mail.ask(replace(SearchQuery(TEXT), **changed)).explain  # type: ignore[arg-type]
    assert explain.facets_applied == facets
    assert explain.facet_count == len(facets)


def test_the_scope_and_what_it_kept_back_are_counted(mail: Whole) -> None:
    query = SearchQuery(TEXT, limit=1_000)
    total = len(mail.ids(query))
    verdicts = dict(zip(sorted(mail.ids(query)), [*Visibility] * total, strict=False))
    found = mail.ask(query, Scope("by thirds", lambda m: verdicts[m.message_id], audited=True))
    denied = sum(verdict is Visibility.DENY for verdict in verdicts.values())
    redacted = sum(verdict is Visibility.REDACT for verdict in verdicts.values())
    assert found.explain.scope_policy == "by thirds"
    assert (found.explain.denied_count, found.explain.redacted_count) == (denied, redacted)
    assert len(found.hits) == total - denied
    assert sum(hit.redacted for hit in found.hits) == redacted > 5


def test_without_a_scope_everything_is_shown_and_explain_says_so(mail: Whole) -> None:
    explain = mail.ask(SearchQuery(TEXT)).explain
    assert explain.scope_policy == "unrestricted"
    assert (explain.denied_count, explain.redacted_count) == (0, 0)


@pytest.mark.parametrize("switch", [None, *KillSwitch])
def test_a_shadow_is_compared_only_in_shadow_mode(mail: Whole, switch: KillSwitch | None) -> None:
    explain = mail.under(switch).ask(SearchQuery(TEXT)).explain
    assert (explain.shadow is not None) == (switch is KillSwitch.SHADOW)


def test_redaction_hides_subject_and_body_and_leaves_the_order(mail: Whole) -> None:
    plain = mail.ask(SearchQuery(TEXT))
    hidden = mail.ask(SearchQuery(TEXT), Scope("all", lambda _: Visibility.REDACT, audited=True))
    assert [hit.message_id for hit in hidden.hits] == [hit.message_id for hit in plain.hits]
    texts = {hit.subject for hit in hidden.hits} | {hit.body for hit in hidden.hits}
    assert texts == {"[redacted]"}
