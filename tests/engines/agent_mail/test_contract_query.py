"""The contract of queries: the chain, explanations, events and the arm."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import MISSING, Field, asdict, fields, replace
from enum import StrEnum
from math import log, log2
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tantivy

from harness.core.errors import ModelNotReady
from harness.core.records import Document, Scalar
from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail import arm as arm_mail
from harness_engines.stacks.agent_mail.contract import (
    Direction,
    DocKind,
    Event,
    ExplainTiming,
    Filters,
    Importance,
    MessageCandidate,
    QueryExplain,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    ShadowComparison,
    TimeRange,
    compare_with_shadow,
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
from harness_engines.stacks.agent_mail.tantivy.index import HASH, INDEX, schema_hash
from harness_engines.vector import amvi
from harness_engines.vector.embedder import Embedder, HashEmbedder, OnnxEmbedder
from tests.engines.agent_mail.fakes import CHAINS
from tests.engines.agent_mail.tools import SETTINGS
from tests.engines.agent_mail.whole import MAIL, ByLength, Whole, build, whole
from tests.make.mail_engines import NONE, Case, built, upsert
from tests.make.mail_messages import NOON, one, some_filters, some_mail, some_text

TEXT = "deployment review br-2tnl"


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
    assert (first.name, first.default) == ("text", MISSING)
    unset = {
        "project_id", "product_id", "direction", "agent_name", "thread_id", "ack_required",
        "limit", "cursor", "sender_name", "recipient_name", "min_score", "rerank_top_k", "rrf_k",
    }  # fmt: skip
    assert {field.name: plain(field) for field in others} == {
        "mode": SearchMode.LEXICAL,
        "doc_kind": DocKind.MESSAGE,
        "ranking": RankingMode.RELEVANCE,
        "importance": (),
        "time_range": TimeRange(None, None),
        "explain": False,
        **dict.fromkeys(unset),
    }
    assert [field.name for field in fields(QueryExplain)] == [
        "method", "normalized_query", "used_like_fallback", "facet_count", "facets_applied",
        "sql", "scope_policy", "denied_count", "redacted_count", "requested_mode",
        "actual_mode", "engine", "mode_downgraded", "downgrade_reason", "timing",
        "cursor_invalidated", "shadow", "note",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "asked", "held"),
    [
        (name, asked, held)
        for name, default, least in (("limit", 50, 1), ("rerank_top_k", 100, 10), ("rrf_k", 60, 1))
        for asked, held in (
            (None, default),
            (-1, least),
            (0, least),
            (least - 1, least),
            (least, least),
            (1_000, 1_000),
            (1_001, 1_000),
        )
    ],
)
def test_bounds_of_numbers(name: str, asked: int | None, held: int) -> None:
    query = SearchQuery("x", **{name: asked})  # type: ignore[arg-type]
    assert getattr(query, f"effective_{name}") == held


def scores(post: Whole, query: SearchQuery) -> list[tuple[int, float]]:
    return [(hit.message_id, hit.score) for hit in post.ask(query).hits]


@pytest.mark.parametrize("mode", SearchMode)
def test_each_number_counts_only_in_its_modes(post: Whole, mode: SearchMode) -> None:
    query = SearchQuery(TEXT, mode=mode, limit=1_000, rerank_top_k=20)
    fused = scores(post, query) != scores(post, replace(query, rrf_k=1))
    assert fused == (mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK})
    reranked = scores(post, query) != scores(post, replace(query, rerank_top_k=10))
    assert reranked == (mode is SearchMode.HYBRID_RERANK)
    timing = post.ask(SearchQuery(TEXT, mode=mode)).explain.timing
    parts = {f.name: getattr(timing, f.name) for f in fields(ExplainTiming)}
    total, scope = parts.pop("total_us"), parts.pop("scope_us")
    assert {name for name, took in parts.items() if took is not None} == PARTS[mode]
    assert all(isinstance(took, int) for took in (total, scope))
    assert 0 <= sum(took or 0 for took in parts.values()) + scope <= total


@pytest.mark.parametrize("mode", SearchMode)
def test_newest_first_in_every_mode(post: Whole, mode: SearchMode) -> None:
    """Times tie often in this mail, so the second key counts too."""
    query = SearchQuery(TEXT, mode=mode, limit=1_000)
    best = post.ids(query)
    recent = post.ids(replace(query, ranking=RankingMode.RECENCY, rerank_top_k=1_000))
    assert recent == sorted(best, key=lambda at: (-MAIL.by_id[at].created_ts, at)) != best
    wanted = post.ids(SearchQuery("", ack_required=True, limit=1_000))
    assert post.ids(SearchQuery("", mode=mode, ack_required=True, limit=1_000)) == wanted != []


STEPS = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers))]


@pytest.mark.parametrize(("mode", "at"), STEPS)
def test_a_missing_tier_gives_way(post: Whole, mode: SearchMode, at: int) -> None:
    tiers = CHAINS[mode]
    post.log.events.clear()
    found = post.without(*tiers[:at]).ask(SearchQuery(TEXT, mode=mode))
    explain = found.explain
    assert found.hits
    assert (explain.engine, found.served_by) == (tiers[at], tiers[at])
    assert (explain.requested_mode, explain.actual_mode) == (mode, MODE_OF[tiers[at]])
    fell = MODE_OF[tiers[at]] is not mode
    assert explain.mode_downgraded == fell
    assert (explain.downgrade_reason is not None) == fell
    told = [payload for event, payload in post.log.events if event is Event.MODE_DOWNGRADE]
    assert len(told) == fell
    for payload in told:
        assert payload == {
            "requested": mode,
            "actual": explain.actual_mode,
            "reason": explain.downgrade_reason,
        }
    assert all(tier in explain.note for tier in tiers[:at])


@pytest.mark.parametrize("mode", SearchMode)
def test_fts5_is_forced_and_the_loss_of_a_mode_is_said(post: Whole, mode: SearchMode) -> None:
    for switch in (None, KillSwitch.TANTIVY):
        assert engine_chain(mode, switch) == CHAINS[mode]
    found = post.under(KillSwitch.FTS5).ask(SearchQuery(TEXT, mode=mode))
    assert (found.explain.engine, found.explain.actual_mode) == ("fts5", "lexical")
    assert found.explain.mode_downgraded == (mode is not SearchMode.LEXICAL)
    found = post.without(*FallbackTier).ask(SearchQuery(TEXT, mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert all(tier in found.explain.note for tier in CHAINS[mode])


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("text", ["", " \t", "\0"])
def test_an_empty_query_finds_nothing(post: Whole, mode: SearchMode, text: str) -> None:
    found = post.ask(SearchQuery(text, mode=mode))
    assert found.hits == ()
    assert "the query is empty" in found.explain.note
    assert not found.explain.mode_downgraded


PARTS = {
    SearchMode.LEXICAL: {"lexical_us"},
    SearchMode.SEMANTIC: {"vector_us"},
    SearchMode.HYBRID: {"lexical_us", "vector_us", "fusion_us"},
    SearchMode.HYBRID_RERANK: {"lexical_us", "vector_us", "fusion_us", "rerank_us"},
}


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
    post: Whole, switch: KillSwitch | None, mode: SearchMode, method: str
) -> None:
    explain = post.under(switch).ask(SearchQuery("  deployment  review", mode=mode)).explain
    assert explain.method == method
    assert not explain.used_like_fallback
    wanted = '"deployment" OR "review"' if method == "fts5" else "deployment review"
    assert explain.normalized_query == wanted


def test_the_sql_is_what_sqlite_was_asked_and_empty_elsewhere(post: Whole) -> None:
    query = SearchQuery(TEXT, thread_id="br-2tnl")
    by_fts5 = post.under(KillSwitch.FTS5).ask(query).explain
    assert "MATCH ?" in by_fts5.sql
    assert "m.thread_id = ?" in by_fts5.sql
    by_like = post.without(FallbackTier.TANTIVY, FallbackTier.FTS5).ask(query).explain
    assert "LIKE ?" in by_like.sql
    assert (by_like.used_like_fallback, by_like.normalized_query) == (True, None)
    assert post.ask(query).explain.sql == ""


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
    post: Whole, changed: dict[str, object], facets: tuple[str, ...]
) -> None:
    explain = post.ask(replace(SearchQuery(TEXT), **changed)).explain  # type: ignore[arg-type]
    assert explain.facets_applied == facets
    assert explain.facet_count == len(facets)


def test_the_scope_and_what_it_kept_back_are_counted(post: Whole) -> None:
    query = SearchQuery(TEXT, limit=1_000)
    ids = sorted(post.ids(query))
    verdicts = dict(zip(ids, [*Visibility] * len(ids), strict=False))
    scope = Scope("by thirds", lambda m: verdicts[m.message_id], audited=True)
    found = post.ask(query, scope)
    counts = [[*verdicts.values()].count(one) for one in (Visibility.DENY, Visibility.REDACT)]
    assert found.explain.scope_policy == "by thirds"
    assert [found.explain.denied_count, found.explain.redacted_count] == counts
    assert len(found.hits) == len(ids) - counts[0]
    assert sum(hit.redacted for hit in found.hits) == counts[1] > 5
    everything = post.ask(query).explain
    assert everything.scope_policy == "unrestricted"
    assert (everything.denied_count, everything.redacted_count) == (0, 0)


@pytest.mark.parametrize("switch", [None, *KillSwitch])
def test_only_shadow_mode_compares(post: Whole, switch: KillSwitch | None) -> None:
    explain = post.under(switch).ask(SearchQuery(TEXT)).explain
    assert (explain.shadow is not None) == (switch is KillSwitch.SHADOW)


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
    with whole(tmp_path) as post:
        (tmp_path / "tantivy" / HASH).write_text('{"sha256": "0"}')
        post.ask(SearchQuery("review"))
        post.tantivy.update_incremental([upsert(one(9_000, "moss"))])
        post.without(FallbackTier.HYBRID).ask(SearchQuery("review", mode=SearchMode.HYBRID))
        post.under(KillSwitch.SHADOW).ask(SearchQuery("review"))
        post.ask(SearchQuery("review", cursor=other))
        told = {event.value: set(payload) for event, payload in post.log.events}
        payloads = {event.value: payload for event, payload in post.log.events}
    assert told == CARRIED
    assert payloads["index.rebuild.start"] == {"doc_count": 40, "engine": "tantivy"}
    assert payloads["index.incremental.batch"] == {"batch_size": 1, "engine": "tantivy"}


def test_an_event_is_logged_as_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    told: dict[str, Scalar] = {"batch_size": 3, "engine": "tantivy"}
    with caplog.at_level(logging.INFO, logger="engines.mail"):
        to_log(Event.INCREMENTAL_BATCH, told)
    (line,) = caplog.messages
    assert "\n" not in line
    assert json.loads(line) == {"event": "index.incremental.batch", **told}


DOCUMENTS = [Document("a", "deployment failed", "br-2tnl"), Document("b", "lunch", "")]


def arm_built(folder: Path, **changed: object) -> tuple[arm_mail.Mail, Path]:
    settings = {**SETTINGS, "mode": "lexical", "embedder": "", **changed}
    engine = arm_mail.Mail(arm_mail.MailSettings.model_validate(settings), folder / "cache")
    index = folder / "index"
    index.mkdir()
    engine.build(DOCUMENTS, index)
    return engine, index


def test_words_need_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Embedder:
        raise ModelNotReady("no model may be opened here")

    monkeypatch.setattr("harness_engines.vector.embedder.model", none)
    monkeypatch.setattr("harness_engines.stacks.agent_mail.arm.embedder_of", none)
    engine, index = arm_built(tmp_path)
    with engine.open(index) as searcher:
        found = searcher.search("deployment", 5)
    assert ([hit.doc_id for hit in found.hits], found.note) == (["a"], "")


@pytest.mark.parametrize("mode", ["semantic", "hybrid", "hybrid_rerank"])
def test_without_a_model_words_answer_and_the_arm_does_not_sign(tmp_path: Path, mode: str) -> None:
    engine, index = arm_built(tmp_path, mode=mode)
    with engine.open(index) as searcher:
        found = searcher.search("deployment", 5)
        assert [hit.doc_id for hit in found.hits] == ["a"]
        assert found.served_by != searcher.manifest.fingerprint
        assert "model" in found.note


def test_a_model_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def counted(name: str, _: int) -> Embedder:
        loaded.append(name)
        return HashEmbedder(32)

    monkeypatch.setattr("harness_engines.stacks.agent_mail.arm.embedder_of", counted)
    engine, index = arm_built(tmp_path, mode="hybrid", embedder="hash")
    with engine.open(index) as searcher:
        before = len(loaded)
        assert all(searcher.search(text, 5).hits for text in ("deployment", "lunch", "br-2tnl"))
        assert len(loaded) == before > 0


ALL = 1_000
WAYS = [*((mode, None) for mode in SearchMode), (SearchMode.LEXICAL, KillSwitch.FTS5)]


def hits(mail: Whole, query: SearchQuery) -> tuple[SearchHit, ...]:
    return mail.ask(query).hits


@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_scores_are_shares_in_order(
    post: Whole, mode: SearchMode, switch: KillSwitch | None
) -> None:
    rng, served, shown = Random(6), post.under(switch), 0
    for _ in range(40):
        filters = some_filters(rng)
        query = SearchQuery(some_text(rng), mode=mode, limit=ALL, sender_name=filters.sender_name)
        search_hits = hits(served, query)
        keys = [(-hit.score, hit.message_id) for hit in search_hits]
        assert keys == sorted(keys)
        assert len({message_id for _, message_id in keys}) == len(keys)
        assert all(0.0 <= hit.score <= 1.0 for hit in search_hits)
        shown += len(search_hits)
    assert shown > 500


def found_by(post: Whole, tier: FallbackTier) -> dict[int, float]:
    """Scores of an engine asked directly, higher for better."""
    engine = post.service.tiers.lexical[tier]
    found = engine.search(TEXT, Filters(), RankingMode.RELEVANCE, ALL)
    return {c.message_id: c.raw_score for c in found.candidates}


@pytest.mark.parametrize(
    ("switch", "tier"),
    [(KillSwitch.FTS5, FallbackTier.FTS5), (KillSwitch.TANTIVY, FallbackTier.TANTIVY)],
)
def test_a_lexical_score_is_a_share(post: Whole, switch: KillSwitch, tier: FallbackTier) -> None:
    own = found_by(post, tier)
    best = max(own.values())
    shown = hits(post.under(switch), SearchQuery(TEXT, limit=ALL))
    assert len(shown) == len(own) > 20
    for hit in shown:
        assert hit.raw_score == own[hit.message_id]
        assert hit.score == pytest.approx(hit.raw_score / best, abs=1e-12)
    assert shown[0].score == 1.0


def test_bm25_is_turned_so_that_higher_is_better(post: Whole) -> None:
    """SQLite counts downwards from zero."""
    sql = (
        "SELECT rowid, bm25(messages_fts, 2.0, 1.0, 4.0) FROM messages_fts"
        " WHERE messages_fts MATCH 'deployment'"
    )
    native = dict(post.store.ask(sql))
    shown = hits(post.under(KillSwitch.FTS5), SearchQuery("deployment", limit=ALL))
    assert {hit.message_id: -hit.raw_score for hit in shown} == pytest.approx(native)
    assert all(score < 0 for score in native.values())
    assert min(found_by(post, FallbackTier.TANTIVY).values()) > 0


def ranks(shown: tuple[SearchHit, ...]) -> dict[int, int]:
    return {hit.message_id: rank for rank, hit in enumerate(shown, start=1)}


@pytest.mark.parametrize("rrf_k", [1, 60, 1_000])
def test_a_hybrid_score_is_the_share_of_both_legs(post: Whole, rrf_k: int) -> None:
    legs = [
        ranks(hits(post, SearchQuery(TEXT, mode=mode, limit=ALL)))
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC)
    ]
    shown = hits(post, SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL, rrf_k=rrf_k))
    assert {hit.message_id for hit in shown} == set(legs[0]) | set(legs[1])
    for hit in shown:
        total = sum(1 / (rrf_k + leg[hit.message_id]) for leg in legs if hit.message_id in leg)
        assert hit.raw_score == pytest.approx(total, abs=1e-12)
        assert hit.score == pytest.approx(total / (2 / (rrf_k + 1)), abs=1e-11)


def test_a_reranked_score_is_the_rerankers_and_the_rest_stays_below(post: Whole) -> None:
    hybrid = hits(post, SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL))
    query = SearchQuery(TEXT, mode=SearchMode.HYBRID_RERANK, limit=ALL, rerank_top_k=20)
    shown = hits(post, query)
    window = [hit.message_id for hit in hybrid[:20]]
    given = dict(zip(window, ByLength().rerank(TEXT, window, []), strict=True))
    assert {hit.message_id: (hit.score, hit.raw_score) for hit in shown[:20]} == given
    assert [hit.message_id for hit in shown[20:]] == [hit.message_id for hit in hybrid[20:]]
    assert all(hit.score <= shown[19].score for hit in shown[20:])


@pytest.mark.parametrize(("mode", "switch"), WAYS)
@pytest.mark.parametrize("least", [0.0, 0.3, 0.75, 1.0])
def test_the_threshold_is_on_the_score_that_is_shown(
    post: Whole, mode: SearchMode, switch: KillSwitch | None, least: float
) -> None:
    served, query = post.under(switch), SearchQuery(TEXT, mode=mode, limit=ALL)
    everything = hits(served, query)
    kept = tuple(hit for hit in everything if hit.score >= least)
    assert hits(served, replace(query, min_score=least)) == kept
    assert hits(served, replace(query, min_score=least, limit=5)) == kept[:5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_never_reaches_a_caller(post: Whole, value: float) -> None:
    class Bad:
        name = "bad"

        def search(self, *asked: object) -> object:
            found = post.service.tiers.lexical[FallbackTier.FTS5].search(*asked)  # type: ignore[arg-type]
            first = found.candidates[0]
            spoilt = (MessageCandidate(first.message_id, value), *found.candidates[1:])
            return replace(found, candidates=spoilt)

    tiers = post.service.tiers
    lexical = {**tiers.lexical, FallbackTier.TANTIVY: Bad()}
    service = replace(post.service, tiers=replace(tiers, lexical=lexical))  # type: ignore[arg-type]
    found = service.search(SearchQuery(TEXT))
    assert found.explain.engine == "fts5"
    assert all(math.isfinite(hit.score) and math.isfinite(hit.raw_score) for hit in found.hits)


K1, B = 1.2, 0.75
BODIES = {
    1: "moss",
    2: "moss moss stone",
    3: "moss and other things that make it longer than the rest of them",
    4: "stone",
    5: "water",
    6: "salt water",
    7: "salt",
}
BODY_WORDS = {at: body.split() for at, body in BODIES.items()}


@pytest.fixture(scope="module")
def mail_bm25(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("bm25")
    build(folder, [one(at, body=body) for at, body in BODIES.items()])
    with whole(folder) as made:
        yield made


def by_hand(text: str, tier: FallbackTier) -> dict[int, float]:
    """Score the messages that have words of ``text`` in their body, whose weight is 1."""
    mean = sum(map(len, BODY_WORDS.values())) / len(BODY_WORDS)
    found: dict[int, float] = {}
    for word in text.split():
        have = [at for at, words in BODY_WORDS.items() if word in words]
        odds = (len(BODY_WORDS) - len(have) + 0.5) / (len(have) + 0.5)
        weight = log(1 + odds) if tier is FallbackTier.TANTIVY else log(odds)
        for at in have:
            often, long = BODY_WORDS[at].count(word), len(BODY_WORDS[at])
            score = weight * often * (K1 + 1) / (often + K1 * (1 - B + B * long / mean))
            found[at] = found.get(at, 0.0) + score
    return found


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5])
@pytest.mark.parametrize("text", ["moss", "stone", "water", "longer", "moss stone"])
def test_bm25_orders_by_rarity_and_length(mail_bm25: Whole, tier: FallbackTier, text: str) -> None:
    engine = mail_bm25.service.tiers.lexical[tier]
    found = engine.search(text, Filters(), RankingMode.RELEVANCE, 10).candidates
    scores = {candidate.message_id: candidate.raw_score for candidate in found}
    assert scores == pytest.approx(by_hand(text, tier), rel=1e-5)
    assert scores


def test_a_worked_example_of_a_comparison() -> None:
    found = compare_with_shadow("fts5", [1, 2, 3], "tantivy", [2, 4, 1, 5])
    ideal = 10 / log2(2) + 9 / log2(3) + 8 / log2(4)
    assert asdict(found) == {
        "serving_engine": "fts5",
        "shadow_engine": "tantivy",
        "overlap_jaccard": 2 / 5,
        "ndcg_at_10": pytest.approx((9 / log2(2) + 10 / log2(4)) / ideal),
        "mrr_delta": pytest.approx(1 / 3 - 1),
        "serving_only": 1,
        "shadow_only": 2,
    }


MB = 1_000_000
WHOLE = {"record": "basic", "tokenizer": "raw"}
INDEX_WORDS = {"record": "position", "tokenizer": "am_normalize"}


@pytest.fixture(scope="module")
def mail_index(tmp_path_factory: pytest.TempPathFactory) -> Case:
    texts = ["see br-2tnl", "br and 2tnl apart", "Deployment of the index", "deploy"]
    root = tmp_path_factory.mktemp("index") / "mail"
    return built(root, [one(at, subject) for at, subject in enumerate(texts, start=1)])


def fields_index(mail: Case) -> dict[str, dict[str, Any]]:
    meta = json.loads((mail.engine.root / INDEX / "meta.json").read_text())
    return {field["name"]: field["options"] for field in meta["schema"]}


NUMBERS = ("message_id", "project_id", "created_ts", "ack_required")
WHOLE_NAMES = ("sender_name", "thread_id", "importance", "recipients", "subject_prefix")


def test_the_index_is_as_the_page_says(mail_index: Case) -> None:
    made = fields_index(mail_index)
    named = {*NUMBERS, *WHOLE_NAMES, "subject", "body"}
    assert set(made) == named | {"identifiers", "text"}
    assert {name for name in named if not made[name]["stored"]} == {"subject_prefix"}
    assert all(made[name]["indexed"] and made[name]["fast"] for name in NUMBERS)
    assert {name for name in WHOLE_NAMES if made[name].get("fast")} == {"thread_id"}
    for wanted, names in ((WHOLE, WHOLE_NAMES), (INDEX_WORDS, ("subject", "body"))):
        for name in names:
            assert {**made[name]["indexing"], **wanted} == made[name]["indexing"]
    assert HASH == "schema_hash.json"
    assert json.loads((mail_index.engine.root / HASH).read_text()) == {
        "sha256": schema_hash(mail_index.engine.weights)
    }
    assert {HASH, INDEX} <= {path.name for path in mail_index.engine.root.iterdir()}


def test_the_tokens_of_the_index_are_those_of_am_normalize(mail_index: Case) -> None:
    index = tantivy.Index.open(str(mail_index.engine.root / INDEX))
    index.register_tokenizer("am_normalize", analyzer("none"))
    searcher = index.searcher()
    for word, count in {"deployment": 1, "Deployment": 0, "2tnl": 2, "br-2tnl": 0}.items():
        term = tantivy.Query.term_query(index.schema, "subject", word)
        assert len(searcher.search(term, 9).hits) == count
    assert mail_index.ids("br-2tnl") == [1]
    assert set(mail_index.ids("br 2tnl")) == {1, 2}
    found = [c.message_id for c in mail_index.engine.typeahead("depl", NONE, 9)]
    assert sorted(found) == [3, 4]


def size(path: Path, count: int, dimension: int) -> int:
    vectors = np.zeros((count, dimension), dtype=np.float16)
    amvi.write_amvi(path, "hash", np.arange(count, dtype=np.int64), vectors)
    index = amvi.AmviIndex.open(path, "hash", dimension)
    assert isinstance(index.vectors, np.memmap), "read from the file when it is needed"
    assert index.vectors.dtype == np.float16
    return path.stat().st_size


def test_ten_thousand_messages_take_eight_megabytes_of_vectors(tmp_path: Path) -> None:
    """Of a vector of 384 dimensions in half precision; the head and the padding are small."""
    dimension = HashEmbedder().dimension
    assert dimension == 384
    few, more = size(tmp_path / "a", 100, dimension), size(tmp_path / "b", 1_100, dimension)
    each = (more - few) / 1_000
    assert each == pytest.approx(2 * dimension + 12, abs=0.1)
    assert few - 100 * each < 128
    assert 7.5 * MB < 10_000 * each < 8.5 * MB
    assert 75 * MB < 100_000 * each < 80 * MB


def test_the_hash_embedder_needs_no_model_and_is_not_taken_for_one() -> None:
    embedder = HashEmbedder()
    near, far = embedder.embed(["deployment issues", "rollout problems"])
    assert near.shape == (384,)
    assert float(near @ far) == pytest.approx(0, abs=0.2), "it knows words, not meanings"
    assert not isinstance(embedder, OnnxEmbedder)
    assert embedder.identity == "fnv1a-64, 384 dimensions", "its index is signed as a hash"
