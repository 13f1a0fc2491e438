"""The contract of queries: the chain, explanations, events, the arm, and parts that fail."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from threading import Event as Signal
from threading import get_ident
from time import perf_counter_ns
from typing import Any
from unittest.mock import Mock

import pytest

from harness.core.errors import ModelNotReady
from harness.core.records import Scalar
from harness_engines import contract as kinds
from harness_engines.contract import EngineError, IndexUnavailable, SearchError
from harness_engines.rerank import Reranked
from harness_engines.stacks.agent_mail import contract, faults
from harness_engines.stacks.agent_mail.contract import Event, RankingMode, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.faults import CURRENT, Deadline, ServiceParts
from harness_engines.stacks.agent_mail.pipeline import plan
from harness_engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.search import LikeEngine
from harness_engines.stacks.agent_mail.tantivy.index import HASH
from harness_engines.vector.embedder import HashEmbedder
from tests.engines.agent_mail import whole as make
from tests.engines.agent_mail.whole import MAIL, TEXT, Counting, Failing, Whole, message, service
from tests.make.mail_engines import built_live, served, upserts
from tests.make.mail_messages import NOON, one, some_mail, stored


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (SearchMode, ["lexical", "semantic", "hybrid", "hybrid_rerank"]),
        (RankingMode, ["relevance", "recency"]),
        (contract.Importance, ["low", "normal", "high", "urgent"]),
        (contract.Direction, ["inbox", "outbox"]),
        (contract.DocKind, ["message", "agent", "project"]),
        (KillSwitch, ["fts5", "tantivy", "shadow", "hybrid", "hybrid_rerank"]),
    ],
)
def test_names_on_the_wire_are_the_contracts(names: type[StrEnum], values: list[str]) -> None:
    assert [name.value for name in names] == values


def test_every_field_but_the_text_has_the_default_of_v2() -> None:
    query = SearchQuery("typed")
    assert fields(query)[0].default is MISSING
    unset = {
        "project_id", "product_id", "direction", "agent_name", "thread_id", "ack_required",
        "limit", "cursor", "sender_name", "recipient_name", "min_score", "rerank_top_k", "rrf_k",
    }  # fmt: skip
    assert {field.name: getattr(query, field.name) for field in fields(query)} == {
        "text": "typed",
        "mode": SearchMode.LEXICAL,
        "doc_kind": contract.DocKind.MESSAGE,
        "ranking": RankingMode.RELEVANCE,
        "importance": (),
        "time_range": contract.TimeRange(None, None),
        "explain": False,
        **dict.fromkeys(unset),
    }
    assert [field.name for field in fields(contract.QueryExplain)] == [
        "method", "normalized_query", "used_like_fallback", "facet_count", "facets_applied",
        "sql", "scope_policy", "denied_count", "redacted_count", "requested_mode",
        "actual_mode", "engine", "mode_downgraded", "downgrade_reason", "timing",
        "cursor_invalidated", "shadow", "note",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "default", "least"), [("limit", 50, 1), ("rerank_top_k", 100, 10), ("rrf_k", 60, 1)]
)
def test_bounds_of_numbers(name: str, default: int, least: int) -> None:
    held = {None: default, -1: least, 0: least, least - 1: least, least: least}
    for asked, number in (held | {1_000: 1_000, 1_001: 1_000}).items():
        query = SearchQuery("x", **{name: asked})  # type: ignore[arg-type]
        assert getattr(query, f"effective_{name}") == number, asked


@pytest.mark.parametrize("mode", SearchMode)
def test_each_number_counts_only_in_its_modes(post: Whole, mode: SearchMode) -> None:
    query = SearchQuery(TEXT, mode=mode, limit=1_000, rerank_top_k=20)
    found = post.ask(query)
    fused = found.hits != post.ask(replace(query, rrf_k=1)).hits
    assert fused == (mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK})
    reranked = found.hits != post.ask(replace(query, rerank_top_k=10)).hits
    assert reranked == (mode is SearchMode.HYBRID_RERANK)
    timing = found.explain.timing
    parts = {f.name: getattr(timing, f.name) for f in fields(contract.ExplainTiming)}
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


@pytest.mark.parametrize("mode", SearchMode)
def test_fts5_is_forced_and_the_loss_of_a_mode_is_said(post: Whole, mode: SearchMode) -> None:
    for switch in (None, KillSwitch.TANTIVY):
        assert plan.engine_chain(mode, switch) == make.CHAINS[mode]
    found = post.under(KillSwitch.FTS5).ask(SearchQuery(TEXT, mode=mode))
    assert (found.explain.engine, found.explain.actual_mode) == ("fts5", "lexical")
    assert found.explain.mode_downgraded == (mode is not SearchMode.LEXICAL)
    found = post.without(*FallbackTier).ask(SearchQuery(TEXT, mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert all(tier in found.explain.note for tier in make.CHAINS[mode])


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
        ({"importance": (contract.Importance.LOW, contract.Importance.HIGH)}, ("importance",)),
        ({"direction": contract.Direction.INBOX}, ()),
        ({"agent_name": "Zoë"}, ("agent_name",)),
        (
            {"direction": contract.Direction.OUTBOX, "agent_name": "Zoë"},
            ("direction", "agent_name"),
        ),
        ({"thread_id": "br-2tnl"}, ("thread_id",)),
        ({"ack_required": False}, ("ack_required",)),
        ({"time_range": contract.TimeRange(NOON, None)}, ("time_range",)),
        ({"time_range": contract.TimeRange(None, None)}, ()),
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
    "search.shadow.comparison": {field.name for field in fields(contract.ShadowComparison)},
    "search.cursor.invalidated": {"cursor_engine", "current_engine"},
}


def test_everything_that_can_happen_is_told_with_what_the_contract_says(tmp_path: Path) -> None:
    make.build(tmp_path, some_mail(58, 40).messages)
    other = plan.SearchCursor(0.5, 1, FallbackTier.FTS5).encode()
    with make.whole(tmp_path) as post:
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
        contract.to_log(Event.INCREMENTAL_BATCH, told)
    (line,) = caplog.messages
    assert "\n" not in line
    assert json.loads(line) == {"event": "index.incremental.batch", **told}


EMBEDDER_OF = "harness_engines.stacks.agent_mail.arm.embedder_of"


def test_words_need_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = Mock(side_effect=ModelNotReady("no model may be opened here"))
    monkeypatch.setattr("harness_engines.vector.embedder.model", none)
    monkeypatch.setattr(EMBEDDER_OF, none)
    built_live(tmp_path, embedder="")
    with served(tmp_path, embedder="") as searcher:
        found = searcher.search("lunch", 5)
    assert ([hit.doc_id for hit in found.hits], found.note) == (["m05"], "")


def test_a_model_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Mock(return_value=HashEmbedder(32))
    monkeypatch.setattr(EMBEDDER_OF, loaded)
    built_live(tmp_path, mode="hybrid")
    with served(tmp_path, mode="hybrid") as searcher:
        before = loaded.call_count
        assert all(searcher.search(text, 5).hits for text in ("review", "lunch", "br-2tnl"))
        assert loaded.call_count == before > 0


FEW = [message(1, "deploy failed"), message(2, "deploy deploy done"), message(3, "lunch")]
FOUND = [2, 1]
FALLS = (IndexUnavailable, EngineError, kinds.FeatureUnavailable)
FALLING = [(mode, at) for mode, tiers in make.CHAINS.items() for at in range(len(tiers) - 1)]
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


def broken(errors: Mapping[str, BaseException], log: make.Log) -> MailSearch:
    """Make a service whose parts raise what stands at their names; all others answer."""

    def part(name: str, works: object) -> Any:  # noqa: ANN401  an engine, vectors or a reranker
        return Failing(name, errors[name]) if name in errors else works

    return service(
        FEW,
        lexical={tier: part(tier, Counting(tier, FEW)) for tier in make.LEXICAL},
        semantic=part("vectors", Near()),
        reranker=part("reranker", Scores()),
        log=log,
    )


class Near:
    """Finds by meaning what ``Counting`` finds by words."""

    def search(self, text: str, filters: contract.Filters, depth: int) -> contract.CandidateList:
        return Counting("vector", FEW).search(text, filters, RankingMode.RELEVANCE, depth)


OWN_PART = {
    FallbackTier.RERANK: "reranker",
    FallbackTier.HYBRID: "vectors",
    FallbackTier.SEMANTIC: "vectors",
}
"""The part whose failure is the tier's, and not of those below it; else it is named alike."""


@pytest.mark.parametrize(("mode", "at"), FALLING)
@pytest.mark.parametrize("kind", FALLS)
def test_a_failing_tier_gives_way(kind: type[SearchError], mode: SearchMode, at: int) -> None:
    tiers, log = make.CHAINS[mode], make.Log()
    errors = {OWN_PART.get(tier, tier.value): kind("the disk is full") for tier in tiers[: at + 1]}
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
        (kinds.InvalidQuery("b"), kinds.InvalidQuery, "b"),
        (ModelNotReady("no model"), kinds.FeatureUnavailable, "no model"),
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
        self, text: str, filters: contract.Filters, ranking: RankingMode, depth: int
    ) -> contract.CandidateList:
        self.free.wait(PATIENCE_S)
        self.ended.set()
        return super().search(text, filters, ranking, depth)


@pytest.fixture
def free() -> Iterator[Signal]:
    """Release everything that hangs, at the end of the test at the latest."""
    event = Signal()
    yield event
    event.set()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_is_no_failure_of_a_part(raised: type[BaseException]) -> None:
    with pytest.raises(raised), faults.known():
        raise raised


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
    log, hung = make.Log(), Stuck("tantivy", FEW, free)
    engines: dict[FallbackTier, contract.MailEngine] = {
        at: Counting(at, FEW) for at in make.LEXICAL
    }
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
        found = LikeEngine(store).search("deploy", contract.Filters(), RankingMode.RELEVANCE, 5)
        assert [at for at, _ in found.candidates] == [1]
        token = CURRENT.set(within(SHORT_MS))
        with pytest.raises(EngineError, match="past its budget of 30 ms"):
            store.ask(COUNT, (LATE,))
        CURRENT.reset(token)
        assert store.ask(COUNT, (SOON,)) == [(SOON,)]
