"""The time budget: what is late is left, and the switch in a file."""

from __future__ import annotations

import gc
import logging
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread, active_count, current_thread, main_thread
from time import perf_counter_ns

import pytest

from harness.core.errors import BadFile, UnknownName
from harness_engines.contract import EngineError
from harness_engines.rerank.cross_encoder import Reranked
from harness_engines.stacks.agent_mail import budget
from harness_engines.stacks.agent_mail.budget import (
    CURRENT,
    Deadline,
    ServiceParts,
    SwitchFile,
    value_in,
)
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Filters,
    MailEngine,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.contract import Event as Told
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import MessageVectors
from harness_engines.stacks.agent_mail.sqlite.search import LikeEngine
from harness_engines.stacks.agent_mail.sqlite.store import DeadlineStore, opened
from tests.engines.agent_mail.fakes import Counting, Log, Panic, service
from tests.engines.agent_mail.test_faults import MESSAGES, Near
from tests.make.mail_messages import one, stored

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


@dataclass
class Stuck:
    """Hangs until it is let go, then answers as it should."""

    name: str
    free: Event
    ended: Event = field(default_factory=Event)
    asked: int = 0

    def search(self, *asked: object) -> CandidateList:
        self.asked += 1
        self.free.wait(PATIENCE_S)
        self.ended.set()
        text, filters = asked[:2]
        assert isinstance(text, str)
        assert isinstance(filters, Filters)
        return Counting(self.name, MESSAGES).search(text, filters, RankingMode.RELEVANCE, 10)


@pytest.fixture
def free() -> Iterator[Event]:
    """Let everything go that hangs, at the end of the test at the latest."""
    event = Event()
    yield event
    event.set()


def stuck_at(tier: FallbackTier, free: Event) -> dict[FallbackTier, MailEngine]:
    tiers = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
    return {at: Stuck(at, free) if at is tier else Counting(at, MESSAGES) for at in tiers}


def test_a_share_is_kept_on_a_daemon_of_its_own_that_is_used_again() -> None:
    before = active_count()
    assert ServiceParts().call("engine", current_thread, None) is current_thread()
    assert active_count() == before
    parts = ServiceParts()
    first, second = (parts.call("engine", current_thread, within(LONG_MS)) for _ in range(2))
    assert first is second is not main_thread()
    assert first.daemon
    parts, until = ServiceParts(), within(LONG_MS)
    assert parts.call("engine", CURRENT.get, until) is until
    assert CURRENT.get() is None


def test_what_work_raises_is_raised() -> None:
    def fails() -> None:
        raise Panic("index out of bounds")

    with pytest.raises(Panic, match="out of bounds"):
        ServiceParts().call("engine", fails, within(LONG_MS))


def test_late_work_is_left_and_its_part_refused_until_it_ends(free: Event) -> None:
    parts, ended = ServiceParts(), Event()

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
        Event().wait(0.01)
    return "still refused"


def test_questions_that_are_asked_together_do_not_refuse_each_other(free: Event) -> None:
    parts, first_began = ServiceParts(), Event()

    def slow() -> None:
        first_began.set()
        free.wait(PATIENCE_S)

    waiting = Thread(target=lambda: parts.call("engine", slow, within(LONG_MS)))
    waiting.start()
    assert first_began.wait(60)
    assert parts.call("engine", lambda: "served", within(LONG_MS)) == "served"
    free.set()
    waiting.join()


def test_threads_end_with_the_parts_they_belong_to() -> None:
    parts, began = ServiceParts(), Event()
    with pytest.raises(EngineError, match="nothing is left of the query's budget"):
        parts.call("engine", began.set, within(0))
    assert not began.is_set()
    worker = parts.call("engine", current_thread, within(LONG_MS))
    assert worker.is_alive()
    del parts
    gc.collect()
    worker.join(60)
    assert not worker.is_alive()


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


def test_a_hanging_engine_is_left_and_the_next_answers(free: Event) -> None:
    log, engines = Log(), stuck_at(FallbackTier.TANTIVY, free)
    served = service(MESSAGES, lexical=engines, log=log, budget_ms=ROOM_MS)
    found = served.search(SearchQuery("deploy"))
    note = found.explain.note
    assert [hit.message_id for hit in found.hits] == [2, 1]
    assert (found.served_by, found.explain.engine, found.degraded) == ("fts5", "fts5", True)
    assert re.fullmatch(r"tantivy: past its budget of \d+ ms; answered by fts5", note)
    told = {"wanted": "tantivy", "engine": "fts5", "reason": note}
    assert log.events == [(Told.ENGINE_FALLBACK, told)]
    again = served.search(SearchQuery("deploy"))
    assert again.explain.note == "tantivy: still busy with an earlier query; answered by fts5"
    hung = engines[FallbackTier.TANTIVY]
    assert isinstance(hung, Stuck)
    free.set()
    assert hung.ended.wait(60)
    patient = service(MESSAGES, lexical=engines, budget_ms=LONG_MS)
    assert patient.search(SearchQuery("deploy")).served_by == "tantivy"


@pytest.mark.slow
@pytest.mark.parametrize("hangs", ["semantic", "tantivy", "reranker"])
def test_a_part_that_hangs_is_waited_for_once_in_a_chain(free: Event, hangs: str) -> None:
    """A mode's tiers share their parts: what hangs in the first is refused in the next."""
    words = stuck_at(FallbackTier.TANTIVY if hangs == "tantivy" else FallbackTier.RERANK, free)
    nearest: MessageVectors = Stuck("semantic", free) if hangs == "semantic" else Near()
    log = Log()
    served = service(
        MESSAGES,
        lexical=words,
        semantic=nearest,
        reranker=Rerank(free if hangs == "reranker" else None),
        log=log,
        budget_ms=2 * ROOM_MS,
    )
    found = served.search(SearchQuery("deploy", mode=SearchMode.HYBRID_RERANK))
    wanted = {"semantic": "tantivy", "tantivy": "fts5", "reranker": "hybrid"}[hangs]
    assert [hit.message_id for hit in found.hits][:2] == [2, 1]
    assert found.served_by == wanted
    reason = found.explain.downgrade_reason or ""
    assert reason.count("past its budget") == 1
    assert ("still busy" in reason) == (hangs != "reranker")
    assert [event for event, _ in log.events] == [Told.MODE_DOWNGRADE]


def test_the_end_of_the_chain_has_no_share(free: Event) -> None:
    engines: dict[FallbackTier, MailEngine] = {
        FallbackTier.TANTIVY: Stuck("tantivy", free),
        FallbackTier.FTS5: Stuck("fts5", free),
        FallbackTier.LIKE: Counting("like", MESSAGES),
    }
    found = service(MESSAGES, lexical=engines, budget_ms=SHORT_MS).search(SearchQuery("deploy"))
    assert [hit.message_id for hit in found.hits] == [2, 1]
    assert found.served_by == "like"
    assert re.fullmatch(
        r"tantivy: past its budget of \d+ ms;"
        r" fts5: (past its budget of \d+ ms|nothing is left of the query's budget);"
        r" answered by like",
        found.explain.note,
    )


def test_a_hanging_shadow_keeps_nobody(free: Event) -> None:
    engines = stuck_at(FallbackTier.TANTIVY, free)
    log = Log()
    served = service(
        MESSAGES, lexical=engines, switch=KillSwitch.SHADOW, log=log, budget_ms=ROOM_MS
    )
    found = served.search(SearchQuery("deploy"))
    assert [hit.message_id for hit in found.hits] == [2, 1]
    assert not found.degraded
    ((event, payload),) = log.events
    assert event is Told.SHADOW_COMPARISON
    assert "past its budget of" in str(payload["error"])


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


def test_what_sqlite_itself_refuses_is_said_as_it_is(tmp_path: Path) -> None:
    with stored(tmp_path / "mail.db", []) as store:
        bounded = DeadlineStore.of(store)
        token = CURRENT.set(within(LONG_MS))
        for wrong in ("SELECT CAST(x'ff' AS TEXT)", "SELECT * FROM nowhere"):
            with pytest.raises(sqlite3.OperationalError, match=r"UTF-8|nowhere"):
                bounded.ask(wrong)
        CURRENT.set(within(SHORT_MS))
        with store.writing(), pytest.raises(EngineError, match="past its budget"):
            bounded.ask("SELECT 1")
        CURRENT.reset(token)
        assert bounded.ask("SELECT 1") == [(1,)]


def test_a_store_can_be_closed_while_a_statement_was_left(tmp_path: Path) -> None:
    with stored(tmp_path / "mail.db", [one(1, "deploy")]):
        pass
    parts = ServiceParts()
    with opened(tmp_path / "mail.db") as store:
        bounded = DeadlineStore.of(store)
        with pytest.raises(EngineError, match="past its budget"):
            parts.call("fts5", lambda: bounded.ask(COUNT, (LATE,)), within(SHORT_MS))
    with opened(tmp_path / "mail.db") as store:
        assert store.total_count() == 1


def test_no_process_waits_for_what_hangs() -> None:
    script = (
        "import time\n"
        "from harness_engines.stacks.agent_mail.budget import Deadline, ServiceParts\n"
        "try:\n"
        "    until = Deadline.of(20).share(last=True)\n"
        "    ServiceParts().call('engine', lambda: time.sleep(3600), until)\n"
        "except Exception as exc:\n"
        "    print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "past its budget of" in done.stdout


@dataclass(frozen=True)
class Rerank:
    """Scores by the place it is given, once it is free."""

    free: Event | None

    @property
    def identity(self) -> str:
        return "place"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        del text, fused
        if self.free is not None:
            self.free.wait(PATIENCE_S)
        return [Reranked(1 / (2 + at), 0.0) for at in range(len(ids))]


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


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("SEARCH_ENGINE=fts5\nSEARCH_ENGINE=tantivy\n", BadFile, "sets SEARCH_ENGINE 2 times"),
        ("SEARCH_ENGINE=lucene\n", UnknownName, "lucene"),
        (None, BadFile, "cannot be read"),
    ],
)
def test_a_switch_file_is_refused_at_the_start(
    file: Path, text: str | None, kind: type[Exception], says: str
) -> None:
    put(file, text or "")
    if text is None:
        file.unlink()
    with pytest.raises(kind, match=says):
        SwitchFile(file) if text else value_in(file)
