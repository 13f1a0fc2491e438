"""The store of messages: writes, the journal, killed writers and lent connections."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.budget import CURRENT, Deadline
from harness_engines.stacks.agent_mail.contract import (
    ChangeKind,
    DocChange,
    Filters,
    Message,
    RankingMode,
)
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.sqlite import journal, schema, store
from harness_engines.stacks.agent_mail.sqlite.schema import undo
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights, Fts5Engine
from harness_engines.stacks.agent_mail.sqlite.store import (
    AddressKind,
    DeadlineStore,
    MessageStore,
    Remembered,
    create,
    opened,
)
from tests.make import mail_changing as changing
from tests.make.mail_messages import AGENTS, PRODUCTS, Mail, kinds, one, some_mail, stored
from tests.source import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail.db"


@pytest.fixture
def full(path: Path) -> Path:
    with stored(path, some_mail(7, 40).messages):
        return path


@pytest.fixture
def three(path: Path) -> Iterator[MessageStore]:
    messages = (one(1, "salt", "water"), one(2, "moss", "br-2tnl"), one(5, "fern", "stone"))
    with stored(path, messages) as made:
        yield made


def found(store: MessageStore, text: str) -> list[int]:
    engine = Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0))
    answer = engine.search(text, Filters(), RankingMode.RELEVANCE, 10)
    return [candidate.message_id for candidate in answer.candidates]


def touched(store: MessageStore) -> int:
    return int(store.ask("SELECT sum(length(block)) + count(*) FROM messages_fts_data")[0][0])


def test_every_message_comes_back_as_it_was_put_in(store: MessageStore, mail: Mail) -> None:
    ids = list(mail.by_id)[::-1]
    assert dict(store.hydrate(ids)) == mail.by_id
    assert list(store.hydrate(ids)) == ids
    assert store.total_count() == len(mail.messages)
    assert {k for m in mail.messages for k in kinds(m).values()} == set(AddressKind)
    for message in mail.messages:
        assert store.kinds_of(message.message_id) == kinds(message)
    seen: list[Message] = []
    since = 0
    while batch := store.fetch_batch(since, 37):
        assert len(batch) <= 37
        seen += batch
        since = batch[-1].message_id
    assert tuple(seen) == mail.messages
    assert store.fetch_batch(0, 0) == store.fetch_batch(0, -1) == []


def test_what_is_asked_for_is_read(three: MessageStore) -> None:
    assert list(three.hydrate([5, 77, 1, 5])) == [5, 1]
    assert three.sent([5, 77]) == {5: three.hydrate([5])[5].created_ts}
    assert three.hydrate([]) == {}
    assert list(three.hydrate(range(100_000))) == [1, 2, 5]
    assert three.project_called("quarry") == 3
    assert three.project_called("Quarry") is None
    assert three.product_called("product-2") == 2
    assert three.product_called("none") is None
    assert {p: three.projects_of_product(p) for p in (1, 2, 3)} == PRODUCTS
    assert three.projects_of_product(404) == frozenset()
    changing.insert(
        three, one(9, recipients=("Zoë", "AmberFox", "Zoë")), {"AmberFox": AddressKind.BCC}
    )
    assert three.kinds_of(9) == {"Zoë": AddressKind.TO, "AmberFox": AddressKind.BCC}
    assert three.hydrate([9])[9].recipients == ("Zoë", "AmberFox")


def test_an_update_writes_all_or_nothing(three: MessageStore) -> None:
    message = one(9, "reed")
    assert changing.insert(three, message) == DocChange(ChangeKind.UPSERT, 9, message)
    edited = replace(message, subject="rush")
    assert changing.update(three, edited) == DocChange(ChangeKind.UPSERT, 9, edited)
    assert three.hydrate([9]) == {9: edited}
    assert changing.delete(three, 9) == DocChange(ChangeKind.DELETE, 9)
    assert three.hydrate([9]) == {}
    assert three.ask("SELECT * FROM recipients WHERE message_id = 9") == []
    before = three.hydrate([1, 2, 5])
    with pytest.raises(sqlite3.IntegrityError):
        three.insert_all([(one(9), {}), (one(2), {})])
    with pytest.raises(sqlite3.IntegrityError):
        changing.insert(three, one(10, project_id=404))
    with pytest.raises(KeyError, match="no message 77"):
        changing.update(three, one(77, sender_name="Newcomer"))
    with pytest.raises(KeyError, match="no message 77"):
        changing.delete(three, 77)
    assert three.hydrate([1, 2, 5, 9, 10, 77]) == before
    assert three.ask("SELECT * FROM agents WHERE name = 'Newcomer'") == []


@pytest.mark.parametrize(
    ("edited", "old"),
    [(one(2, "reed_bed-7 now", "br-2tnl"), "moss"), (one(2, "moss", "reed_bed-7 now"), "br-2tnl")],
)
def test_an_edit_replaces_what_is_found(three: MessageStore, edited: Message, old: str) -> None:
    assert found(three, old) == [2]
    changing.update(three, edited)
    assert found(three, "now") == found(three, "reed_bed-7") == [2]
    assert found(three, old) == []
    changing.delete(three, 2)
    assert found(three, "moss") == found(three, "br-2tnl") == found(three, "now") == []
    assert found(three, "salt") == [1]


def test_after_many_writes_the_index_is_that_of_a_rebuild(path: Path) -> None:
    before, after = some_mail(1, 60), some_mail(2, 60)
    with stored(path, before.messages) as store:
        for message in before.messages[::3]:
            changing.delete(store, message.message_id)
        for message in after.messages:
            known = store.hydrate([message.message_id])
            (changing.update if known else changing.insert)(store, message)
        store.ask("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")
        engine = Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0))
        asked = ("deployment failed", "br-2tnl", "部署", "+review -plan", '"migration plan"')
        everything = (Filters(), RankingMode.RELEVANCE, 1_000)
        answers = [engine.search(text, *everything) for text in asked]
        engine.rebuild()
        assert [engine.search(text, *everything) for text in asked] == answers
        assert all(answer.candidates for answer in answers)


def test_a_write_that_leaves_the_text_alone_leaves_the_index_alone(three: MessageStore) -> None:
    before = touched(three)
    changing.update(three, replace(three.hydrate([2])[2], thread_id="other", recipients=AGENTS))
    assert touched(three) == before
    changing.update(three, replace(three.hydrate([2])[2], subject="other"))
    assert touched(three) != before


def test_read_only_it_leaves_no_file_and_writes_nothing(path: Path) -> None:
    with stored(path, [one(1, "salt")]):
        pass
    before = path.read_bytes()
    with opened(path) as store:
        assert found(store, "salt") == [1]
        assert [file.name for file in path.parent.iterdir()] == ["mail.db"]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            changing.delete(store, 1)
    assert [file.name for file in path.parent.iterdir()] == ["mail.db"]
    assert path.read_bytes() == before


def test_the_same_messages_give_the_same_bytes(tmp_path: Path) -> None:
    paths = tmp_path / "a.db", tmp_path / "b.db"
    for at in paths:
        with stored(at, some_mail(3, 50).messages):
            pass
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with opened(paths[0]) as reader, opened(paths[0], write=True) as writer:
        changing.insert(writer, one(1_000, "salt"))
        assert found(reader, "salt") == [1_000]


def test_threads_may_share_it(three: MessageStore) -> None:
    def write(first: int) -> None:
        for message_id in range(first, first + 40):
            changing.insert(three, one(message_id, "reed"))

    def read(_: int) -> list[list[int]]:
        return [found(three, "salt") for _ in range(40)]

    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(read, range(2))
        list(pool.map(write, (100, 200)))
        assert [*answers] == [[[1]] * 40] * 2
    assert three.total_count() == 83


def test_a_store_that_is_missing_or_no_database_is_not_ready(path: Path) -> None:
    def not_ready() -> None:
        with pytest.raises(IndexUnavailable, match=r"mail\.db"), opened(path):
            pass

    not_ready()
    assert not path.exists()
    path.write_bytes(b"no database" * 1_000)
    not_ready()
    with pytest.raises(FileExistsError, match=r"mail\.db"), create(path):
        pass
    assert path.read_bytes() == b"no database" * 1_000
    path.unlink()
    with stored(path, []) as made:
        made.db.execute("PRAGMA user_version = 1")
    not_ready()


def test_without_its_tables_reading_is_not_ready(three: MessageStore) -> None:
    three.ask("DROP TABLE recipients")
    with pytest.raises(IndexUnavailable, match="no such table"):
        three.hydrate([1])
    three.db.close()
    with pytest.raises(EngineError):
        three.total_count()


MESSAGES = some_mail(7, 12).messages


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[MessageStore]:
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        with store.writing() as db:
            journal.settle(db)
        yield store


def changed(store: MessageStore, reached: int = 0) -> list[tuple[int, ChangeKind]]:
    return [(one.message_id, one.kind) for one in journal.since(store, reached).changes]


@pytest.mark.parametrize(
    ("sql", "ids"),
    [
        ("UPDATE messages SET body = 'x' WHERE id = 3", [3]),
        ("UPDATE messages SET importance = 'low' WHERE id = 3", [3]),
        ("DELETE FROM messages WHERE id = 3", [3]),
        ("DELETE FROM recipients WHERE message_id = 8", [8]),
        ("UPDATE recipients SET kind = 'cc' WHERE message_id = 8", [8]),
        ("UPDATE agents SET task_description = 'x'", []),
    ],
)
def test_a_change_by_anyone_is_noted(kept: MessageStore, sql: str, ids: list[int]) -> None:
    assert (journal.generation(kept), changed(kept)) == (0, [])
    kept.db.execute(sql)
    assert [one for one, _ in changed(kept)] == ids
    assert bool(journal.generation(kept)) == bool(ids)


def test_the_last_change_of_a_message_is_kept(kept: MessageStore) -> None:
    for text in ("x", "y"):
        kept.db.execute("UPDATE messages SET body = ? WHERE id = 3", (text,))
    kept.db.execute("DELETE FROM recipients WHERE message_id = 9")
    kept.db.execute("UPDATE messages SET id = 99 WHERE id = 9")
    batch = journal.since(kept, 0)
    said = {one.message_id: one.message and one.message.body for one in batch.changes}
    assert said == {3: "y", 9: None, 99: MESSAGES[4].body}
    assert changed(kept, batch.generation) == []
    assert (
        set(journal.changed(kept, 0)) == set(journal.changed_of(kept, [1, 3, 9, 99])) == {3, 9, 99}
    )


def test_batches_divide_no_generation(kept: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "BATCH", 2)
    kept.db.execute("UPDATE messages SET body = 'x'")
    kept.db.execute("UPDATE agents SET name = name || 'x'")
    reached, seen, batches = 0, set(), 0
    while reached != journal.generation(kept):
        batch = journal.since(kept, reached)
        assert batch.generation > reached
        seen |= {one.message_id for one in batch.changes}
        reached, batches = batch.generation, batches + 1
    assert seen == {message.message_id for message in MESSAGES}
    assert batches > 1


def test_a_renamed_agent_changes_what_it_sent_and_got(kept: MessageStore) -> None:
    kept.db.execute("BEGIN")
    kept.db.execute("DELETE FROM messages")
    assert journal.generation(kept)
    kept.db.execute("ROLLBACK")
    assert (journal.generation(kept), changed(kept)) == (0, [])
    (name,) = {MESSAGES[0].sender_name}
    theirs = sorted(
        m.message_id
        for m in MESSAGES
        if m.project_id == MESSAGES[0].project_id and name in {m.sender_name, *m.recipients}
    )
    sql = "UPDATE agents SET name = 'New' WHERE name = ? AND project_id = ?"
    kept.db.execute(sql, (name, MESSAGES[0].project_id))
    assert sorted(one for one, _ in changed(kept)) == theirs != []
    assert journal.since(kept, 0).generation == journal.generation(kept)


REMEMBERED_MESSAGES = 12


@dataclass
class Counted:
    """A store, what was read of it, and what happens while it is read."""

    store: MessageStore
    asked: list[list[int]] = field(default_factory=list)
    meanwhile: list[Message] = field(default_factory=list)

    def read(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.store.read(sql, params)

    def hydrate(self, message_ids: Sequence[int]) -> Mapping[int, Message]:
        self.asked.append(list(message_ids))
        read = self.store.hydrate(message_ids)
        while self.meanwhile:
            changing.update(self.store, self.meanwhile.pop())
        return read


@pytest.fixture
def counted(path: Path) -> Iterator[Counted]:
    with stored(path, (one(at, "moss") for at in range(1, REMEMBERED_MESSAGES + 1))) as store:
        yield Counted(store)


def test_a_message_is_read_once_and_given_in_the_order_asked_for(counted: Counted) -> None:
    kept = Remembered(counted)
    assert list(kept.hydrate([3, 77, 1, 3])) == [3, 1]
    assert kept.hydrate([5, 1, 3]) == counted.store.hydrate([5, 1, 3])
    assert list(kept.hydrate([5, 3, 1])) == [5, 3, 1]
    assert counted.asked == [[3, 77, 1, 3], [5]]
    counted.store.db.execute("DROP TABLE generation")
    assert list(kept.hydrate([1])) == [1]
    assert counted.asked[2:] == [[1]], "without a journal every message is read"


@pytest.mark.parametrize("seed", range(4))
def test_what_is_given_is_the_message_as_it_is_now(counted: Counted, path: Path, seed: int) -> None:
    rng, kept = Random(seed), Remembered(counted)
    ids = range(1, REMEMBERED_MESSAGES + 4)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA foreign_keys = ON")
        for step in range(120):
            match rng.randrange(5):
                case 0:
                    other.execute("UPDATE messages SET body = ? WHERE id = ?", (str(step), 3))
                case 1:
                    at = rng.choice(ids)
                    if counted.store.hydrate([at]):
                        changing.update(
                            counted.store, one(at, f"fern {step}", recipients=("AmberFox",))
                        )
                    else:
                        changing.insert(counted.store, one(at, f"reed {step}"))
                case 2:
                    other.execute("DELETE FROM messages WHERE id = ?", (rng.choice(ids),))
                case 3:
                    other.execute("UPDATE agents SET name = name || 'x' WHERE id = 1")
                case _:
                    pass
            some = rng.sample(ids, 5)
            assert kept.hydrate(some) == counted.store.hydrate(some)
    assert sum(map(len, counted.asked)) < 120 * 5, "it remembered nothing"


def test_what_changes_while_it_is_read_is_read_again(counted: Counted) -> None:
    kept = Remembered(counted)
    edited = replace(counted.store.hydrate([2])[2], body="edited")
    counted.meanwhile.append(edited)
    assert kept.hydrate([2])[2].body != "edited"
    assert kept.hydrate([2])[2] == edited


def test_an_older_reading_never_takes_the_place_of_a_newer_one(counted: Counted) -> None:
    kept = Remembered(counted)
    edited = replace(counted.store.hydrate([2])[2], body="edited")
    read = counted.hydrate

    def slow(message_ids: Sequence[int]) -> Mapping[int, Message]:
        old = read(message_ids)
        counted.hydrate = read  # type: ignore[method-assign]
        changing.update(counted.store, edited)
        assert kept.hydrate([2])[2] == edited, "another thread reads meanwhile"
        return old

    counted.hydrate = slow  # type: ignore[method-assign]
    kept.hydrate([2])
    assert kept.hydrate([2])[2] == edited


def test_what_is_kept_has_a_bound(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_CHARACTERS", 4 * store.EACH + 100)
    kept = Remembered(counted)
    for at in (1, 2, 3, 4, 5):
        kept.hydrate([at])
    kept.hydrate([4, 5])
    assert counted.asked[5:] == []
    kept.hydrate([1])
    assert counted.asked[5:] == [[1]]


def test_a_store_that_began_anew_is_read_anew(counted: Counted, path: Path) -> None:
    kept = Remembered(counted)
    changing.update(counted.store, one(1, "fern"))
    assert kept.hydrate([2])[2].subject == "moss"
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE messages SET subject = 'another file' WHERE id = 2")
        other.execute("DELETE FROM changes")
        other.execute("UPDATE generation SET value = 0")
        other.commit()
    assert kept.hydrate([2])[2].subject == "another file"


KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 2")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE messages SET body = 'half done'")
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("while_open", [False, True])
def test_a_killed_write_is_undone(full: Path, *, while_open: bool) -> None:
    sql = "SELECT count(*) FROM messages WHERE body = 'half done'"
    with store.opened(full, write=True) as made:
        made.db.execute("UPDATE messages SET body = hex(randomblob(4000))")
    with ExitStack() as stack:
        reads = stack.enter_context(store.opened(full)) if while_open else None
        subprocess.run([sys.executable, "-c", KILLED, str(full)], check=False)
        assert full.with_name("mail.db-journal").exists()
        reads = reads or stack.enter_context(store.opened(full))
        assert reads.read(sql) == [(0,)]
    assert not full.with_name("mail.db-journal").exists()


def test_where_nothing_is_half_done_nothing_happens(full: Path, tmp_path: Path) -> None:
    before = full.read_bytes()
    undo(full)
    undo(tmp_path / "none")
    assert full.read_bytes() == before
    assert not (tmp_path / "none").exists()


def test_nobody_waits_for_a_writer_and_it_leaves_one_file(full: Path) -> None:
    with store.opened(full) as reads, ingest.opened(full) as writes:
        written = writes.insert(Draft(1, "a subject", "a body", "RedFox"))
        db = writes.store.db
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE messages SET body = 'not yet'")
        reads.db.execute("PRAGMA busy_timeout = 0")
        assert reads.hydrate(written.message_ids)[written.message_ids[0]].body == "a body"
        db.execute("ROLLBACK")
    with store.opened(full) as reads:
        assert reads.hydrate(written.message_ids)
    assert [one.name for one in full.parent.iterdir()] == ["mail.db"]


WRITER = """
import os, sys
from pathlib import Path
from harness_engines.stacks.agent_mail import ingest
with ingest.opened(Path(sys.argv[1])) as writes:
    writes.insert(ingest.Draft(1, "a subject", "finished", "RedFox"))
    writes.store.db.execute("BEGIN IMMEDIATE")
    writes.store.db.execute("UPDATE messages SET subject = 'half done'")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_writer_finished_is_there_and_the_rest_is_not(full: Path) -> None:
    sql = "SELECT count(*) FROM messages WHERE body = 'finished' AND subject != 'half done'"
    with store.opened(full) as reads:
        assert reads.read(sql) == [(0,)]
        subprocess.run([sys.executable, "-c", WRITER, str(full)], check=False, cwd=ROOT)
        assert full.with_name("mail.db-wal").exists()
        assert reads.read(sql) == [(1,)]
    with store.opened(full) as reads:
        assert reads.read(sql) == [(1,)]
    assert [one.name for one in full.parent.iterdir()] == ["mail.db"]


def test_so_many_and_no_more_are_lent(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MAX_READERS", 1)
    with store.opened(full) as mail, mail.borrowed(), mail.borrowed() as second:
        with mail.borrowed(0.0) as none:
            assert none is None
        late = CURRENT.set(Deadline(0, 1.0))
        try:
            with pytest.raises(Exception, match="past its budget"):
                DeadlineStore.of(mail).ask("SELECT 1")
        finally:
            CURRENT.reset(late)
        assert second is not None
    with store.opened(full) as mail, mail.borrowed():
        with mail.borrowed() as again:
            made = again
        with mail.borrowed() as again:
            assert again is made


def test_while_connections_are_busy_another_one_answers(full: Path) -> None:
    with store.opened(full) as mail, mail.borrowed():
        for _ in range(2):
            with mail.borrowed() as one, mail.borrowed() as other:
                assert one is not other
    with store.opened(full) as mail, mail.borrowed() as first, mail.borrowed() as second:
        assert first is mail.db is not second
        assert mail.total_count() == 40
        assert DeadlineStore.of(mail).ask("SELECT 1") == [(1,)]
    with store.opened(full) as mail, mail.borrowed():
        full.unlink()
        assert mail.readers is not None
        assert mail.readers.take() is None


def test_a_change_of_another_connection_is_a_new_generation(full: Path) -> None:
    with store.opened(full, write=True) as mail, mail.borrowed(), mail.borrowed(0.0) as none:
        assert (none, mail.readers) == (None, None)
    with store.opened(full) as mail, store.opened(full, write=True) as other:
        before = mail.generation()
        assert mail.generation() == before
        changing.delete(other, some_mail(7, 40).messages[0].message_id)
        assert mail.generation() != before
