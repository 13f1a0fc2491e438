"""Parts that fail: each kind, each tier, and their repair."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Signal
from threading import active_count
from time import perf_counter_ns

import pytest

from harness.core.errors import ModelNotReady
from harness_engines.contract import (
    EngineError,
    FeatureUnavailable,
    IndexUnavailable,
    InvalidQuery,
    SearchError,
)
from harness_engines.rerank import Reranked
from harness_engines.stacks.agent_mail import budget
from harness_engines.stacks.agent_mail.budget import (
    CURRENT,
    Deadline,
    ServiceParts,
    SwitchFile,
)
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Event,
    Filters,
    MailEngine,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.pipeline import faults
from harness_engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.search import LikeEngine
from harness_engines.stacks.agent_mail.sqlite.store import DeadlineStore
from tests.engines.agent_mail.fakes import (
    CHAINS,
    LEXICAL,
    Counting,
    Failing,
    Log,
    message,
    service,
)
from tests.make.mail_messages import one, stored

MESSAGES = [message(1, "deploy failed"), message(2, "deploy deploy done"), message(3, "lunch")]
SHOWN = [2, 1]
FALLS = (IndexUnavailable, EngineError, FeatureUnavailable)
STEPS = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers) - 1)]
"""Each tier of each chain that has one below it."""


class Panic(BaseException):
    """Like a panic of a Rust engine: no Exception."""


@dataclass(frozen=True)
class Scores:
    """A reranker that keeps the order it is given, unless it is told what to say."""

    says: tuple[Reranked, ...] | None = None
    identity: str = "keeps the order"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        del text, ids
        return self.says or [Reranked(score, score) for score in fused]


def broken(errors: Mapping[str, BaseException], log: Log) -> MailSearch:
    """Make a service whose parts raise what stands at their names; all others answer."""
    lexical: dict[FallbackTier, MailEngine] = {
        tier: Failing(tier, errors[tier]) if tier in errors else Counting(tier, MESSAGES)
        for tier in LEXICAL
    }
    return service(
        MESSAGES,
        lexical=lexical,
        semantic=Failing("vectors", errors["vectors"]) if "vectors" in errors else Near(),
        reranker=Failing("reranker", errors["reranker"]) if "reranker" in errors else Scores(),
        log=log,
    )


class Near:
    """Finds by meaning what ``Counting`` finds by words."""

    def search(self, text: str, filters: Filters, depth: int) -> CandidateList:
        return Counting("vector", MESSAGES).search(text, filters, RankingMode.RELEVANCE, depth)


def part(tier: FallbackTier) -> str:
    """Name the part whose failure is the tier's, and not of those below it."""
    return {
        FallbackTier.RERANK: "reranker",
        FallbackTier.HYBRID: "vectors",
        FallbackTier.SEMANTIC: "vectors",
    }.get(tier, tier.value)


@pytest.mark.parametrize(("mode", "at"), STEPS)
@pytest.mark.parametrize("kind", FALLS)
def test_a_failing_tier_gives_way(kind: type[SearchError], mode: SearchMode, at: int) -> None:
    tiers, log = CHAINS[mode], Log()
    errors = {part(tier): kind("the disk is full") for tier in tiers[: at + 1]}
    found = broken(errors, log).search(SearchQuery("deploy", mode=mode))
    by = tiers[at + 1]
    assert [hit.message_id for hit in found.hits] == SHOWN
    assert (found.served_by, found.explain.engine) == (by, by)
    assert found.explain.actual_mode == MODE_OF[by]
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
    served = service(MESSAGES, semantic=Near(), reranker=Scores(says))
    found = served.search(SearchQuery("deploy", mode=SearchMode.HYBRID_RERANK))
    assert ([hit.message_id for hit in found.hits], found.served_by) == (SHOWN, "hybrid")


SHORT_MS, ROOM_MS, LONG_MS = 30.0, 1_000.0, 600_000.0
"""Budgets: for what hangs and is left, for what hangs and what is asked next, for what answers."""
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
    """Let everything go that hangs, at the end of the test at the latest."""
    event = Signal()
    yield event
    event.set()


def stuck_at(tier: FallbackTier, free: Signal) -> dict[FallbackTier, MailEngine]:
    tiers = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
    return {at: Stuck(at, MESSAGES, free) if at is tier else Counting(at, MESSAGES) for at in tiers}


def test_late_work_is_left_and_its_part_refused_until_it_ends(free: Signal) -> None:
    parts, ended = ServiceParts(), Signal()

    def hangs() -> str:
        free.wait(PATIENCE_S)
        ended.set()
        return "too late"

    with pytest.raises(EngineError, match="past its budget of 30 ms"):
        parts.call("engine", hangs, within(SHORT_MS))
    threads = active_count()
    for _ in range(5):
        with pytest.raises(EngineError, match="still busy with an earlier query"):
            parts.call("engine", str, within(LONG_MS))
    assert active_count() == threads
    assert parts.call("another", lambda: "served", within(LONG_MS)) == "served"
    free.set()
    assert ended.wait(60)
    assert eventually(parts) == "served"


def eventually(parts: ServiceParts) -> str:
    """Ask until the part is free again; the thread that was left has a last word to say."""
    for _ in range(1_000):
        with suppress(EngineError):
            return parts.call("engine", lambda: "served", within(LONG_MS))
        Signal().wait(0.01)
    return "still refused"


def test_each_tier_gets_half_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 5_000
    monkeypatch.setattr(budget, "perf_counter_ns", lambda: now_ns)
    allowed = Deadline.of(LONG_MS)
    assert allowed is not None
    assert allowed.share(last=False).share_ms == LONG_MS / 2
    assert allowed.share(last=True).share_ms == LONG_MS
    assert Deadline.of(0) is None
    spent = Deadline(now_ns - 1, 1.0).share(last=True)
    assert spent.share_ms == 0
    assert spent.is_past()


def test_a_hanging_engine_is_left_and_the_next_answers(free: Signal) -> None:
    log, engines = Log(), stuck_at(FallbackTier.TANTIVY, free)
    served = service(MESSAGES, lexical=engines, log=log, budget_ms=ROOM_MS)
    found = served.search(SearchQuery("deploy"))
    note = found.explain.note
    assert [hit.message_id for hit in found.hits] == [2, 1]
    assert (found.served_by, found.explain.engine, found.degraded) == ("fts5", "fts5", True)
    assert re.fullmatch(r"tantivy: past its budget of \d+ ms; answered by fts5", note)
    told = {"wanted": "tantivy", "engine": "fts5", "reason": note}
    assert log.events == [(Event.ENGINE_FALLBACK, told)]
    again = served.search(SearchQuery("deploy"))
    assert again.explain.note == "tantivy: still busy with an earlier query; answered by fts5"
    hung = engines[FallbackTier.TANTIVY]
    assert isinstance(hung, Stuck)
    free.set()
    assert hung.ended.wait(60)
    patient = service(MESSAGES, lexical=engines, budget_ms=LONG_MS)
    assert patient.search(SearchQuery("deploy")).served_by == "tantivy"


def test_a_statement_that_nobody_waits_for_is_interrupted(tmp_path: Path) -> None:
    with stored(tmp_path / "mail.db", [one(1, "deploy")]) as store:
        bounded, parts = DeadlineStore.of(store), ServiceParts()
        with pytest.raises(EngineError, match="past its budget"):
            parts.call("fts5", lambda: bounded.ask(COUNT, (LATE,)), within(SHORT_MS))
        found = LikeEngine(store).search("deploy", Filters(), RankingMode.RELEVANCE, 5)
        assert [c.message_id for c in found.candidates] == [1]
        token = CURRENT.set(within(SHORT_MS))
        with pytest.raises(EngineError, match="past its budget of 30 ms"):
            bounded.ask(COUNT, (LATE,))
        CURRENT.reset(token)
        assert bounded.ask(COUNT, (SOON,)) == [(SOON,)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "switch.env"
    path.write_text("# a comment\n\nOTHER=1\nSEARCH_ENGINE=shadow\n")
    return path


def put(path: Path, text: str) -> None:
    """Replace the file as its writer does."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


def test_it_is_read_at_the_start_and_when_it_is_replaced(file: Path) -> None:
    switch = SwitchFile(file)
    assert switch.read() is KillSwitch.SHADOW
    put(file, "SEARCH_ENGINE = 'fts5'\n")
    assert switch.read() is KillSwitch.FTS5
    file.unlink()
    assert switch.read() is KillSwitch.FTS5
    put(file, "SEARCH_ENGINE=\n")
    assert switch.read() is None


@pytest.mark.parametrize("text", ["SEARCH_ENGINE=lucene\n", "", "SEARCH_ENGINE\n", "\udcff"])
def test_a_bad_switch_file(file: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    switch = SwitchFile(file)
    with caplog.at_level(logging.ERROR):
        file.unlink()
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert {switch.read() for _ in range(3)} == {KillSwitch.SHADOW}
        assert len(caplog.records) == 1
    put(file, "SEARCH_ENGINE=tantivy\n")
    assert switch.read() is KillSwitch.TANTIVY
