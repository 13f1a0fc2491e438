"""Parts that fail: each kind, each tier, and their repair."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE
from time import sleep
from typing import NoReturn

import pytest

from harness.core.errors import ModelNotReady
from harness_engines.contract import (
    EngineError,
    FeatureUnavailable,
    IndexUnavailable,
    InvalidQuery,
    SearchError,
)
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Event,
    Filters,
    MailEngine,
    RankingMode,
    SearchMode,
    SearchQuery,
    SearchResponse,
)
from harness_engines.stacks.agent_mail.pipeline import faults
from harness_engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import (
    MessageVectors,
    Tiers,
    UnavailableVectors,
    or_unavailable,
)
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights, Fts5Engine, LikeEngine
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from harness_engines.stacks.agent_mail.sqlite.store import opened as repair_opened
from harness_engines.stacks.agent_mail.tantivy.index import HASH, INDEX
from tests.engines.agent_mail import fakes
from tests.engines.agent_mail.fakes import (
    BOTH,
    CHAINS,
    DOCUMENTS,
    EITHER,
    FAULTS,
    LEXICAL,
    LONG,
    NEEDS,
    TEXT,
    Counting,
    Failing,
    Fault,
    Log,
    Panic,
    Raises,
    Scores,
    message,
    service,
)
from tests.engines.agent_mail.test_tantivy_index import Slow
from tests.engines.agent_mail.tools import SETTINGS as TOOL_SETTINGS
from tests.make import mail_changing as changing
from tests.make.damage import flip
from tests.make.mail_engines import Case, built, case, upsert
from tests.make.mail_messages import one, stored

MESSAGES = [message(1, "deploy failed"), message(2, "deploy deploy done"), message(3, "lunch")]
SHOWN = [2, 1]
FALLS = (IndexUnavailable, EngineError, FeatureUnavailable)
STEPS = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers) - 1)]
"""Each tier of each chain that has one below it."""


def broken(errors: Mapping[str, BaseException], log: Log) -> MailSearch:
    """Make a service whose parts raise what stands at their names; all others answer."""
    lexical: dict[FallbackTier, MailEngine] = {
        tier: Failing(tier, errors[tier]) if tier in errors else Counting(tier, MESSAGES)
        for tier in LEXICAL
    }
    return service(
        MESSAGES,
        lexical=lexical,
        semantic=Raises(errors["vectors"]) if "vectors" in errors else Near(),
        reranker=Raises(errors["reranker"]) if "reranker" in errors else Scores(),
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
    assert not NEEDS[by] & errors.keys()
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


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("kind", FALLS)
def test_a_failure_of_all_names_each(kind: type[SearchError], mode: SearchMode) -> None:
    errors = dict.fromkeys(("reranker", "vectors", *LEXICAL), kind("gone"))
    found = broken(errors, Log()).search(SearchQuery("deploy", mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert found.explain.note.endswith("like: gone; nothing could answer")
    assert found.explain.note.count("gone") == len(CHAINS[mode])


@pytest.mark.parametrize(("mode", "at"), [*STEPS, *((m, len(c) - 1) for m, c in CHAINS.items())])
def test_a_question_that_is_none_for_one_tier_is_none_at_all(mode: SearchMode, at: int) -> None:
    tiers, log = CHAINS[mode], Log()
    errors: dict[str, BaseException] = {part(tier): EngineError("gone") for tier in tiers[:at]}
    errors[part(tiers[at])] = InvalidQuery("no text")
    found = broken(errors, log).search(SearchQuery("deploy", mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert "no text" in found.explain.note
    assert found.explain.note.count("no text") == 1
    assert not found.explain.mode_downgraded
    assert log.events == []


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


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_a_program_is_no_fault(raised: BaseException) -> None:
    with pytest.raises(type(raised)), faults.known():
        raise raised
    halted = broken({"tantivy": raised}, Log())
    with pytest.raises(type(raised)):
        halted.search(SearchQuery("deploy"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [(IndexUnavailable("cut"), IndexUnavailable), (ModelNotReady("absent"), FeatureUnavailable)],
)
def test_a_part_that_cannot_be_opened_says_why_whenever_it_is_asked(
    error: Exception, kind: type[SearchError]
) -> None:
    def opening() -> NoReturn:
        raise error

    with pytest.raises(kind, match=f"^vectors: {error}$"), faults.of_leg("vectors"):
        opening()
    absent: MessageVectors | None = or_unavailable(opening)
    assert absent == UnavailableVectors(kind, str(error))
    assert or_unavailable(lambda: None) is None
    for _ in range(2):
        with pytest.raises(kind, match=str(error)):
            UnavailableVectors(kind, str(error)).search("deploy")


def test_what_is_locked_is_not_read_once_for_each_message() -> None:
    asked: list[Sequence[int]] = []

    def locked(ids: Sequence[int]) -> NoReturn:
        asked.append(ids)
        cause = sqlite3.OperationalError("database is locked")
        cause.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise EngineError("message store: database is locked") from cause

    with pytest.raises(EngineError, match="locked"):
        faults.salvaged(locked, {})([1, 2, 3])
    assert asked == [[1, 2, 3]]


def test_messages_are_read_one_by_one_where_some_cannot_be() -> None:
    def hydrate(ids: Sequence[int]) -> dict[int, str]:
        if 2 in ids:
            raise IndexUnavailable("malformed")
        return {one: "read" for one in ids if one != 4}

    lost: dict[int, str] = {}
    read = faults.salvaged(hydrate, lost)
    assert read([1, 2, 3, 4]) == {1: "read", 3: "read"}
    assert lost == {2: "malformed"}
    with pytest.raises(IndexUnavailable, match="malformed"):
        read([2])


SETTINGS = mail.MailSettings.model_validate({**TOOL_SETTINGS, "mode": "hybrid"})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an index that nothing is wrong with."""
    folder = tmp_path_factory.mktemp("whole") / "index"
    folder.mkdir()
    stack(folder.parent).build(DOCUMENTS, folder)
    return folder


@pytest.fixture
def index(whole: Path, tmp_path: Path) -> Path:
    """Copy it, to spoil."""
    return Path(shutil.copytree(whole, tmp_path / "index"))


def stack(cache: Path) -> mail.Mail:
    return mail.Mail(SETTINGS, cache)


@contextmanager
def opened(index: Path) -> Iterator[MailSearch]:
    """Open what is there, as the arm does, with a reranker."""
    with stack(index.parent).open(index) as searcher:
        assert isinstance(searcher, MailSearcher)
        service = searcher.service
        yield replace(service, tiers=replace(service.tiers, reranker=Scores()))


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Read what was logged: each event and its reason."""
    lines = [json.loads(r.message) for r in caplog.records if r.name == "engines.mail"]
    return [(line["event"], line.get("reason", "")) for line in lines]


def check(
    found: SearchResponse, mode: SearchMode, fault: Fault, chain: tuple[FallbackTier, ...]
) -> None:
    """Hold an answer against what the fault leaves of a chain."""
    by = next(tier for tier in chain if not NEEDS[tier] & fault.breaks)
    explain, ids = found.explain, [hit.message_id for hit in found.hits]
    assert (explain.engine, found.served_by) == (by, by)
    assert (explain.requested_mode, explain.actual_mode) == (mode, MODE_OF[by])
    assert set(ids) >= (BOTH if by is FallbackTier.LIKE else EITHER)
    assert {ids[0]} == BOTH
    if by in {FallbackTier.TANTIVY, FallbackTier.FTS5}:
        assert set(ids) == EITHER
    fell = by is not chain[0]
    assert found.degraded == fell
    assert explain.mode_downgraded == (MODE_OF[by] is not mode)
    assert (explain.downgrade_reason or explain.note) == explain.note
    if fell:
        assert re.search(f"{fault.because}.*; answered by {by}$", explain.note, re.DOTALL)
    else:
        assert explain.note == ""


@pytest.mark.slow
@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("name", FAULTS)
def test_every_question_is_served_and_told_how(
    index: Path, name: str, mode: SearchMode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engines.mail")
    fault = FAULTS[name]
    fault.spoil(index)
    with opened(index) as service:
        found = fault.swap(service).search(SearchQuery(TEXT, mode=mode, limit=100))
    check(found, mode, fault, CHAINS[mode])
    downgraded = found.explain.mode_downgraded
    name_of = "search.mode.downgrade" if downgraded else "search.engine.fallback"
    expected = [(name_of, found.explain.note)] if found.degraded else []
    assert events(caplog) == expected


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE messages_fts",
        "UPDATE messages_fts_data SET block = x'00ff' WHERE id > 10",
        "DELETE FROM messages_fts_data",
    ],
)
def test_without_fts5_like_serves(index: Path, mode: SearchMode, statement: str) -> None:
    fakes.sql(index, statement)
    with opened(index) as service:
        forced = replace(service, switch=KillSwitch.FTS5)
        found = forced.search(SearchQuery(TEXT, mode=mode, limit=100))
    assert [hit.message_id for hit in found.hits] == sorted(BOTH)
    assert (found.explain.engine, found.degraded) == ("like", True)
    assert re.search("fts5: FTS5 index: .*; answered by like$", found.explain.note)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("failing", [fakes.no_such_model, fakes.other_model])
def test_without_its_model_the_service_opens_and_serves_by_words(
    index: Path, mode: SearchMode, failing: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    because = "is not installed" if failing is fakes.no_such_model else "its SHA-256 is"
    monkeypatch.setattr(mail, "embedder_of", failing)
    with opened(index) as service:
        found = service.search(SearchQuery(TEXT, mode=mode, limit=100))
    check(found, mode, Fault(frozenset({"vectors"}), because), CHAINS[mode])


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("invalid_utf8", [False, True])
def test_an_unreadable_message_alone_is_left_out(
    index: Path, mode: SearchMode, *, invalid_utf8: bool
) -> None:
    if invalid_utf8:
        fakes.sql(index, "UPDATE messages SET subject = CAST(x'ff' AS TEXT) WHERE id = 10")
    else:
        fakes.lose_a_page(index)
    gone = 10 if invalid_utf8 else LONG
    with opened(index) as service:
        for ranking in RankingMode:
            page = service.search(SearchQuery(TEXT, mode=mode, limit=100, ranking=ranking))
            ids = {hit.message_id for hit in page.hits}
            assert EITHER - {gone} <= ids
            assert gone not in ids
            assert (page.unread, page.degraded) == (1, True)
            assert page.served_by == CHAINS[mode][0]
            assert "1 messages cannot be read (message store: " in page.explain.note
            assert ("UTF-8" in page.explain.note) == invalid_utf8


@pytest.mark.parametrize("mode", SearchMode)
def test_a_lost_table(index: Path, mode: SearchMode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "engines.mail")
    with opened(index) as service:
        gone = ("DROP TRIGGER agents_renamed", "DROP TABLE recipients")
        fakes.sql(index, *gone, "ALTER TABLE messages RENAME TO gone")
        for asked in (SearchQuery(TEXT, mode=mode), SearchQuery(TEXT, mode=mode, product_id=5)):
            found = service.search(asked)
            assert (found.hits, found.next_cursor, found.degraded) == ((), None, True)
            assert "nothing could answer" in found.explain.note
            assert "no such table: messages; nothing could answer" in found.explain.note
    assert all("nothing could answer" in reason for _, reason in events(caplog))


def test_a_product_whose_projects_cannot_be_read_shows_nothing(index: Path) -> None:
    with opened(index) as service:
        assert service.search(SearchQuery(TEXT, product_id=5)).hits
        fakes.sql(index, "DROP TABLE product_projects")
        found = service.search(SearchQuery(TEXT, product_id=5))
    assert found.hits == ()
    assert found.explain.facets_applied == ("product_id",)
    assert "the projects of product 5 are not known: " in found.explain.note


def test_a_log_that_fails_keeps_nobody_from_an_answer(index: Path) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    shutil.rmtree(index / mail.TANTIVY)
    with opened(index) as service:
        found = replace(service, emit=full).search(SearchQuery(TEXT, mode=SearchMode.HYBRID))
    assert {hit.message_id for hit in found.hits} == EITHER


REPAIR_MESSAGES = [one(at, m.subject) for at, m in enumerate(MESSAGES, start=1)]

WEIGHTS = ColumnWeights(subject=2.0, body=1.0, identifiers=4.0)
ROOM_MS = 1_000.0
TRIES = 1_000
HELD = {
    "tantivy": "held = tantivy.Index.open(sys.argv[1]).writer(15_000_000, 1)",
    "sqlite": (
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.executescript('BEGIN IMMEDIATE; DELETE FROM messages')"
    ),
}
"""What a program does to hold a lock."""


@contextmanager
def held_by_another_process(what: str, path: Path) -> Iterator[None]:
    """Let another process write to ``path``."""
    code = (
        f"import sqlite3, sys, tantivy\n{HELD[what]}\nprint('held', flush=True)\nsys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "held\n"
            yield
        finally:
            other.stdin.close()


@dataclass
class Served:
    """A store, a Tantivy index beside it, and a service over both."""

    store: MessageStore
    tantivy: Case
    service: MailSearch

    def ask(self, text: str = "deploy") -> tuple[list[int], str, str]:
        """Give what is shown, who answered, and what is said of it."""
        found = self.service.search(SearchQuery(text, mode=SearchMode.LEXICAL))
        return [hit.message_id for hit in found.hits], found.served_by, found.explain.note


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with stored(tmp_path / "mail.db", REPAIR_MESSAGES) as store:
        yield serving(store, built(tmp_path / "tantivy", REPAIR_MESSAGES))


def serving(store: MessageStore, tantivy: Case) -> Served:
    lexical: dict[FallbackTier, MailEngine] = {
        FallbackTier.TANTIVY: tantivy.engine,
        FallbackTier.FTS5: Fts5Engine(store, WEIGHTS),
        FallbackTier.LIKE: LikeEngine(store),
    }
    tiers = Tiers(lexical, None, None, store.sent)
    service = MailSearch(tiers, store.hydrate, store.projects_of_product, None, tantivy.told)
    return Served(store, tantivy, service)


def of_another_schema(tantivy: Case) -> None:
    (tantivy.engine.root / HASH).write_text('{"sha256": "of an older program"}')


def test_a_slow_rebuild_goes_on_and_is_then_used(tmp_path: Path) -> None:
    made = built(tmp_path / "tantivy", REPAIR_MESSAGES)
    of_another_schema(made)
    made.engine.source = slow = Slow(REPAIR_MESSAGES)
    with stored(tmp_path / "mail.db", REPAIR_MESSAGES) as store:
        served = serving(store, made)
        served.service = replace(served.service, budget_ms=ROOM_MS)
        shown, by, note = served.ask()
        assert (shown, by) == (SHOWN, "fts5")
        assert "tantivy: past its budget of" in note
        busy = "tantivy: still busy with an earlier query; answered by fts5"
        assert served.ask() == (SHOWN, "fts5", busy)
        slow.go_on.set()
        answers: list[tuple[list[int], str, str]] = []
        while len(answers) < TRIES and answers[-1:] != [(SHOWN, "tantivy", "")]:
            answers.append(served.ask())
            sleep(0.01)
        assert answers[-1] == (SHOWN, "tantivy", "")
        assert {tuple(shown) for shown, _, _ in answers} == {tuple(SHOWN)}
    assert made.told.names.count("index.rebuild.complete") == 1


@pytest.mark.parametrize("removed", [False, True])
def test_a_damaged_index_answers_once_it_is_rebuilt(served: Served, *, removed: bool) -> None:
    root = served.tantivy.engine.root
    if removed:
        shutil.rmtree(root)
    else:
        flip(next((root / INDEX).glob("*.pos")), 3)
    shown, by, note = served.ask()
    assert (shown, by) == (SHOWN, "fts5")
    assert ("no index here" if removed else "its bytes were altered") in note
    assert set(served.tantivy.told.names) == {"search.engine.fallback"}
    served.tantivy.engine.rebuild()
    assert served.ask() == (SHOWN, "tantivy", "")


def test_a_dropped_fts5_index_answers_once_it_is_rebuilt(served: Served) -> None:
    served.service = replace(served.service, switch=KillSwitch.FTS5)
    fts5 = served.service.tiers.lexical[FallbackTier.FTS5]
    assert isinstance(fts5, Fts5Engine)
    fts5.remove()
    shown, by, note = served.ask()
    assert (sorted(shown), by) == ([1, 2], "like")
    assert "no such table: messages_fts" in note
    fts5.rebuild()
    assert served.ask() == (SHOWN, "fts5", "")


def test_a_reader_answers_while_another_process_writes(served: Served) -> None:
    root = served.tantivy.engine.root
    with held_by_another_process("tantivy", root / INDEX):
        fresh = serving(served.store, served.tantivy.fresh())
        assert fresh.ask() == (SHOWN, "tantivy", "")
        for write in (
            fresh.tantivy.engine.rebuild,
            lambda: fresh.tantivy.engine.update_incremental([upsert(one(9, "deploy"))]),
        ):
            with pytest.raises(IndexUnavailable, match="another writer holds the index"):
                write()
        assert fresh.ask() == (SHOWN, "tantivy", "")
    fresh.tantivy.engine.rebuild()


def test_a_rebuild_that_another_process_keeps_out_is_served_by_fts5(served: Served) -> None:
    of_another_schema(served.tantivy)
    with held_by_another_process("tantivy", served.tantivy.engine.root / INDEX):
        shown, by, note = served.ask()
        assert (shown, by) == (SHOWN, "fts5")
        assert "tantivy: another writer holds the index; try again later" in note
    assert served.ask() == (SHOWN, "tantivy", "")


def test_the_store_is_read_while_another_process_writes_to_it(served: Served) -> None:
    path = Path(served.store.db.execute("PRAGMA database_list").fetchone()[2])
    with held_by_another_process("sqlite", path), repair_opened(path, write=True) as store:
        reading = serving(store, case(served.tantivy.engine.root, REPAIR_MESSAGES))
        assert reading.ask() == (SHOWN, "tantivy", "")
        forced = Served(store, reading.tantivy, replace(reading.service, switch=KillSwitch.FTS5))
        assert forced.ask() == (SHOWN, "fts5", "")
        store.db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            changing.insert(store, one(9, "deploy"))
        assert store.total_count() == len(REPAIR_MESSAGES)


def test_a_store_that_another_process_locks_answers_empty(served: Served) -> None:
    path = Path(served.store.db.execute("PRAGMA database_list").fetchone()[2])
    served.store.db.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    shown, _, note = served.ask()
    assert shown == []
    assert "database is locked; nothing could answer" in note
    other.execute("ROLLBACK")
    other.close()
    assert served.ask() == (SHOWN, "tantivy", "")
