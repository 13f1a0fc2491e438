"""The contract of queries: the chain, explanations, events, the arm, and parts that fail."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from threading import Event as Signal
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import pytest

from harness.core.errors import ModelNotReady
from harness.core.records import Document, Scalar
from harness_engines.contract import (
    EngineError,
    FeatureUnavailable,
    IndexUnavailable,
    InvalidQuery,
    SearchError,
)
from harness_engines.rerank import Reranked
from harness_engines.stacks.agent_mail import arm as arm_mail
from harness_engines.stacks.agent_mail import faults
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Direction,
    DocKind,
    Event,
    ExplainTiming,
    Filters,
    Importance,
    MailEngine,
    QueryExplain,
    RankingMode,
    SearchMode,
    SearchQuery,
    ShadowComparison,
    TimeRange,
    to_log,
)
from harness_engines.stacks.agent_mail.faults import CURRENT, Deadline, ServiceParts
from harness_engines.stacks.agent_mail.pipeline.plan import (
    MODE_OF,
    FallbackTier,
    KillSwitch,
    SearchCursor,
    engine_chain,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.search import LikeEngine
from harness_engines.stacks.agent_mail.tantivy.index import HASH
from harness_engines.vector.embedder import Embedder, HashEmbedder
from tests.engines.agent_mail.whole import (
    CHAINS,
    LEXICAL,
    MAIL,
    SETTINGS,
    Counting,
    Failing,
    Log,
    Whole,
    build,
    message,
    service,
    whole,
)
from tests.make.mail_engines import upserts
from tests.make.mail_messages import NOON, one, some_mail, stored

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
    other = SearchCursor(0.5, 1, FallbackTier.FTS5).encode()
    with whole(tmp_path) as post:
        (tmp_path / "tantivy" / HASH).write_text('{"sha256": "0"}')
        post.ask(SearchQuery("review"))
        post.tantivy.update_incremental(upserts(one(9_000, "moss")))
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


FEW = [message(1, "deploy failed"), message(2, "deploy deploy done"), message(3, "lunch")]
FOUND = [2, 1]
FALLS = (IndexUnavailable, EngineError, FeatureUnavailable)
FALLING = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers) - 1)]
"""Each tier of each chain that has one below it."""


class Panic(BaseException):
    """Like a panic of a Rust engine: no Exception."""


@dataclass(frozen=True)
class Scores:
    """A reranker that keeps the order it is given, unless it is told what to say."""

    says: tuple[Reranked, ...] | None = None

    def __call__(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        del text, ids
        return self.says or [Reranked(score, score) for score in fused]


def broken(errors: Mapping[str, BaseException], log: Log) -> MailSearch:
    """Make a service whose parts raise what stands at their names; all others answer."""
    lexical: dict[FallbackTier, MailEngine] = {
        tier: Failing(tier, errors[tier]) if tier in errors else Counting(tier, FEW)
        for tier in LEXICAL
    }
    return service(
        FEW,
        lexical=lexical,
        semantic=Failing("vectors", errors["vectors"]) if "vectors" in errors else Near(),
        reranker=Failing("reranker", errors["reranker"]) if "reranker" in errors else Scores(),
        log=log,
    )


class Near:
    """Finds by meaning what ``Counting`` finds by words."""

    def search(self, text: str, filters: Filters, depth: int) -> CandidateList:
        return Counting("vector", FEW).search(text, filters, RankingMode.RELEVANCE, depth)


def part(tier: FallbackTier) -> str:
    """Name the part whose failure is the tier's, and not of those below it."""
    return {
        FallbackTier.RERANK: "reranker",
        FallbackTier.HYBRID: "vectors",
        FallbackTier.SEMANTIC: "vectors",
    }.get(tier, tier.value)


@pytest.mark.parametrize(("mode", "at"), FALLING)
@pytest.mark.parametrize("kind", FALLS)
def test_a_failing_tier_gives_way(kind: type[SearchError], mode: SearchMode, at: int) -> None:
    tiers, log = CHAINS[mode], Log()
    errors = {part(tier): kind("the disk is full") for tier in tiers[: at + 1]}
    found = broken(errors, log).search(SearchQuery("deploy", mode=mode))
    by = tiers[at + 1]
    assert [hit.message_id for hit in found.hits] == FOUND
    assert (found.served_by, found.explain.engine) == (by, by)
    assert (found.explain.requested_mode, found.explain.actual_mode) == (mode, MODE_OF[by])
    said = [one for one in found.explain.note.split("; ") if "the disk is full" in one]
    assert [one.split(":")[0] for one in said] == list(tiers[: at + 1])
    assert found.explain.note.endswith(f"; answered by {by}")
    changed = MODE_OF[by] is not mode
    assert found.explain.mode_downgraded == changed
    assert [event for event, _ in log.events] == [
        Event.MODE_DOWNGRADE if changed else Event.ENGINE_FALLBACK
    ]


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (IndexUnavailable("a"), IndexUnavailable, "a"),
        (InvalidQuery("b"), InvalidQuery, "b"),
        (ModelNotReady("no model"), FeatureUnavailable, "no model"),
        (ValueError("c"), EngineError, "ValueError: c"),
        (MemoryError(), EngineError, "MemoryError: "),
        (Panic("d"), EngineError, "Panic: d"),
    ],
)
def test_any_error_is_of_four(raised: BaseException, kind: type[SearchError], said: str) -> None:
    with pytest.raises(kind) as caught, faults.known():
        raise raised
    assert type(caught.value) is kind
    assert str(caught.value) == said


@pytest.mark.parametrize("says", [(Reranked(float("nan"), 0.0),) * 2, (Reranked(0.5, 0.0),)])
def test_a_reranker_without_a_number_for_each_gives_way(says: tuple[Reranked, ...]) -> None:
    served = service(FEW, semantic=Near(), reranker=Scores(says))
    found = served.search(SearchQuery("deploy", mode=SearchMode.HYBRID_RERANK))
    assert ([hit.message_id for hit in found.hits], found.served_by) == (FOUND, "hybrid")


SHORT_MS, ROOM_MS, LONG_MS = 30.0, 1_000.0, 600_000.0
"""Budgets: for what hangs and is left, for what is asked next too, for what answers."""
COUNT = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?)"
    " SELECT max(x) FROM n"
)
PATIENCE_S = 20
"""A test that lets go of nothing ends all the same, and fails."""
SOON, LATE = 100_000, 5_000_000
"""How far SQLite is made to count: for a moment, and far beyond a short budget."""


def within(ms: float) -> Deadline:
    return Deadline(perf_counter_ns() + int(ms * 1e6), ms)


@dataclass(frozen=True)
class Stuck(Counting):
    """Hangs until it is let go, then answers as it should."""

    free: Signal
    ended: Signal = field(default_factory=Signal)

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        self.free.wait(PATIENCE_S)
        self.ended.set()
        return super().search(text, filters, ranking, depth)


@pytest.fixture
def free() -> Iterator[Signal]:
    """Release everything that hangs, at the end of the test at the latest."""
    event = Signal()
    yield event
    event.set()


def test_each_tier_gets_half_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 5_000
    monkeypatch.setattr(faults, "perf_counter_ns", lambda: now_ns)
    allowed = Deadline.of(LONG_MS)
    assert allowed is not None
    assert allowed.share(last=False).share_ms == LONG_MS / 2
    assert allowed.share(last=True).share_ms == LONG_MS
    assert Deadline.of(0) is None
    spent = Deadline(now_ns - 1, 1.0).share(last=True)
    assert spent.share_ms == 0
    assert spent.is_past()


def test_a_hanging_engine_is_left_and_the_next_answers(free: Signal) -> None:
    log, hung = Log(), Stuck("tantivy", FEW, free)
    engines: dict[FallbackTier, MailEngine] = {at: Counting(at, FEW) for at in LEXICAL}
    engines[FallbackTier.TANTIVY] = hung
    served = service(FEW, lexical=engines, log=log, budget_ms=ROOM_MS)
    found = served.search(SearchQuery("deploy"))
    note = found.explain.note
    assert [hit.message_id for hit in found.hits] == [2, 1]
    assert (found.served_by, found.explain.engine, found.degraded) == ("fts5", "fts5", True)
    assert re.fullmatch(r"tantivy: past its budget of \d+ ms; answered by fts5", note)
    told = {"wanted": "tantivy", "engine": "fts5", "reason": note}
    assert log.events == [(Event.ENGINE_FALLBACK, told)]
    again = served.search(SearchQuery("deploy"))
    assert again.explain.note == "tantivy: still busy with an earlier query; answered by fts5"
    free.set()
    assert hung.ended.wait(60)
    patient = service(FEW, lexical=engines, budget_ms=LONG_MS)
    assert patient.search(SearchQuery("deploy")).served_by == "tantivy"


def test_work_within_a_budget_starts_one_thread() -> None:
    parts = ServiceParts()
    assert len({parts.call("fts5", get_ident, within(LONG_MS)) for _ in range(20)}) == 1


def test_a_statement_that_nobody_waits_for_is_interrupted(tmp_path: Path) -> None:
    with stored(tmp_path / "mail.db", [one(1, "deploy")]) as store:
        parts = ServiceParts()
        with pytest.raises(EngineError, match="past its budget"):
            parts.call("fts5", lambda: store.ask(COUNT, (LATE,)), within(SHORT_MS))
        found = LikeEngine(store).search("deploy", Filters(), RankingMode.RELEVANCE, 5)
        assert [at for at, _ in found.candidates] == [1]
        token = CURRENT.set(within(SHORT_MS))
        with pytest.raises(EngineError, match="past its budget of 30 ms"):
            store.ask(COUNT, (LATE,))
        CURRENT.reset(token)
        assert store.ask(COUNT, (SOON,)) == [(SOON,)]
