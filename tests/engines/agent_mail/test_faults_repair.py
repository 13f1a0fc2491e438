"""What is repaired, by itself or by a rebuild, and what a lock of another process means."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import pytest

from engines.contract import IndexUnavailable
from engines.stacks.agent_mail.contract import MailEngine, Message, SearchMode, SearchQuery
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.retrievers import Tiers
from engines.stacks.agent_mail.service import MailSearch
from engines.stacks.agent_mail.sqlite.search import Fts5Engine, LikeEngine, Weights
from engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from engines.stacks.agent_mail.tantivy.index import HASH, INDEX
from tests.make.damage import flip
from tests.make.mail import changing
from tests.make.mail.messages import one, stored
from tests.make.mail.tantivy import Case, built, case, upsert

MESSAGES = [one(1, "deploy failed"), one(2, "deploy deploy done"), one(3, "lunch")]
SHOWN = [2, 1]
WEIGHTS = Weights(subject=2.0, body=1.0, identifiers=4.0)
ROOM_MS = 1_000.0
TRIES = 1_000
HELD = {
    "tantivy": (
        "import sys, tantivy\n"
        "index = tantivy.Index.open(sys.argv[1])\n"
        "writer = index.writer(15_000_000, 1)\n"
        "print('held', flush=True)\n"
        "sys.stdin.readline()\n"
    ),
    "sqlite": (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('BEGIN IMMEDIATE')\n"
        "db.execute('DELETE FROM messages')\n"
        "print('held', flush=True)\n"
        "sys.stdin.readline()\n"
    ),
}
"""Programs that hold a lock until they are told something."""


@contextmanager
def held_by_another_process(what: str, path: Path) -> Iterator[None]:
    """Let another process write to ``path``."""
    with subprocess.Popen(
        [sys.executable, "-c", HELD[what], str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
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
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        yield serving(store, built(tmp_path / "tantivy", MESSAGES))


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


def test_an_index_of_another_schema_is_rebuilt_when_it_is_asked(served: Served) -> None:
    of_another_schema(served.tantivy)
    assert served.ask() == (SHOWN, "tantivy", "")
    names = ["index.schema.mismatch", "index.rebuild.start", "index.rebuild.complete"]
    assert served.tantivy.told.names == names
    assert served.tantivy.told.events[0][1]["actual"] == "of an older program"
    assert served.ask() == (SHOWN, "tantivy", "")
    assert served.tantivy.told.names == names


def test_a_rebuild_that_takes_longer_than_the_budget_goes_on_and_is_then_used(
    tmp_path: Path,
) -> None:
    free = Event()

    @dataclass
    class Slow:
        """A source that waits."""

        messages: Sequence[Message] = field(default_factory=lambda: MESSAGES)

        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            free.wait()
            return [m for m in self.messages if m.message_id > since_id][:limit]

        def total_count(self) -> int:
            return len(self.messages)

    made = built(tmp_path / "tantivy", MESSAGES)
    of_another_schema(made)
    made.engine.source = Slow()
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        served = serving(store, made)
        served.service = replace(served.service, budget_ms=ROOM_MS)
        shown, by, note = served.ask()
        assert (shown, by) == (SHOWN, "fts5")
        assert "tantivy: past its budget of" in note
        busy = "tantivy: still busy with an earlier query; answered by fts5"
        assert served.ask() == (SHOWN, "fts5", busy)
        free.set()
        answers: list[tuple[list[int], str, str]] = []
        while len(answers) < TRIES and answers[-1:] != [(SHOWN, "tantivy", "")]:
            answers.append(served.ask())
            Event().wait(0.01)
        assert answers[-1] == (SHOWN, "tantivy", "")
        assert {tuple(shown) for shown, _, _ in answers} == {tuple(SHOWN)}
    assert made.told.names.count("index.rebuild.complete") == 1


def test_a_damaged_index_is_not_rebuilt_by_itself_and_answers_once_it_is(served: Served) -> None:
    flip(next((served.tantivy.engine.root / INDEX).glob("*.pos")), 3)
    shown, by, note = served.ask()
    assert (shown, by) == (SHOWN, "fts5")
    assert "its bytes were altered" in note
    assert set(served.tantivy.told.names) == {"search.engine.fallback"}
    served.tantivy.engine.rebuild()
    assert served.ask() == (SHOWN, "tantivy", "")


def test_an_index_that_was_removed_answers_once_it_is_built(served: Served) -> None:
    shutil.rmtree(served.tantivy.engine.root)
    assert served.ask()[1] == "fts5"
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


def test_a_reader_opens_and_answers_while_another_process_writes_the_index(
    served: Served,
) -> None:
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
    with held_by_another_process("sqlite", path), opened(path, write=True) as store:
        reading = serving(store, case(served.tantivy.engine.root, MESSAGES))
        assert reading.ask() == (SHOWN, "tantivy", "")
        forced = Served(store, reading.tantivy, replace(reading.service, switch=KillSwitch.FTS5))
        assert forced.ask() == (SHOWN, "fts5", "")
        store.db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            changing.insert(store, one(9, "deploy"))
    assert store_count(path) == len(MESSAGES)


def store_count(path: Path) -> int:
    with opened(path) as store:
        return store.total_count()


def test_a_store_that_another_process_keeps_to_itself_is_an_empty_answer(
    served: Served,
) -> None:
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
