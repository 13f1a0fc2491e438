"""The store of messages: writes, the journal, killed writers and lent connections."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.lexical.grammar import Selected
from harness_engines.lexical.grammar import refuses as refusals
from harness_engines.lexical.terms import coded, normalise
from harness_engines.stacks.agent_mail import contract, ingest
from harness_engines.stacks.agent_mail.contract import CandidateList, Filters, Message, RankingMode
from harness_engines.stacks.agent_mail.faults import Deadline
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.sqlite import schema, search
from harness_engines.stacks.agent_mail.sqlite import store as of_mail
from harness_engines.stacks.agent_mail.sqlite.schema import MESSAGES, index_of
from harness_engines.stacks.agent_mail.sqlite.search import OPERATORS, Fts5Engine, LikeEngine
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind, MessageStore, Remembered
from tests.make import mail_changing as changing
from tests.make.damage import killed, run_sql
from tests.make.mail_messages import AGENTS, PRODUCTS, Mail, kinds, one, some_mail, stored


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
    assert list(three.hydrate(range(100_000))) == [1, 2, 5]
    assert [three.project_called(name) for name in ("quarry", "Quarry")] == [3, None]
    assert [three.product_called(name) for name in ("product-2", "none")] == [2, None]
    assert {p: three.projects_of_product(p) for p in (1, 2, 3)} == PRODUCTS
    assert three.projects_of_product(404) == frozenset()
    changing.insert(
        three, one(9, recipients=("Zoë", "AmberFox", "Zoë")), {"AmberFox": AddressKind.BCC}
    )
    assert three.kinds_of(9) == {"Zoë": AddressKind.TO, "AmberFox": AddressKind.BCC}
    assert three.hydrate([9])[9].recipients == ("Zoë", "AmberFox")


def test_what_cannot_be_read_of_a_message_is_named(three: MessageStore) -> None:
    three.ask("UPDATE messages SET importance = 'odd' WHERE id = 2")
    assert list(three.hydrate([1, 5])) == [1, 5]
    with pytest.raises(ValueError, match="'odd' is not a valid Importance"):
        three.hydrate([1, 2])


def test_after_many_writes_the_index_is_that_of_a_rebuild(path: Path) -> None:
    before, after = some_mail(1, 60), some_mail(2, 60)
    with stored(path, before.messages) as store:
        for message in before.messages[::3]:
            changing.delete(store, message.message_id)
        for message in after.messages:
            known = store.hydrate([message.message_id])
            (changing.update if known else changing.insert)(store, message)
        store.ask("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")
        engine = Fts5Engine(store, WEIGHTS)
        asked = ("deployment failed", "br-2tnl", "部署", "+review -plan", '"migration plan"')
        everything = (Filters(), RankingMode.RELEVANCE, 1_000)
        answers = [engine.search(text, *everything) for text in asked]
        with store.writing() as db:
            schema.drop_index(db, schema.MESSAGES)
            schema.create_index(db, schema.MESSAGES)
        assert [engine.search(text, *everything) for text in asked] == answers
        assert all(answer.candidates for answer in answers)


def test_a_write_that_leaves_the_text_alone_leaves_the_index_alone(three: MessageStore) -> None:
    before = touched(three)
    changing.update(three, replace(three.hydrate([2])[2], thread_id="other", recipients=AGENTS))
    assert touched(three) == before
    changing.update(three, replace(three.hydrate([2])[2], subject="other"))
    assert touched(three) != before


TWELVE = some_mail(7, 12).messages


@pytest.fixture
def kept(path: Path) -> Iterator[MessageStore]:
    with stored(path, TWELVE) as store:
        store.settle_journal()
        yield store


def changed(store: MessageStore, reached: int = 0) -> list[int]:
    return [*store.since(reached)[1]]


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
    assert (kept.generation(), changed(kept)) == (0, [])
    kept.db.execute(sql)
    assert changed(kept) == ids
    assert bool(kept.generation()) == bool(ids)


def test_the_last_change_of_a_message_is_kept(kept: MessageStore) -> None:
    for text in ("x", "y"):
        kept.db.execute("UPDATE messages SET body = ? WHERE id = 3", (text,))
    kept.db.execute("DELETE FROM recipients WHERE message_id = 9")
    kept.db.execute("UPDATE messages SET id = 99 WHERE id = 9")
    generation, changes = kept.since(0)
    said = {at: message and message.body for at, message in changes.items()}
    assert said == {3: "y", 9: None, 99: TWELVE[4].body}
    assert changed(kept, generation) == []
    assert {*kept.news(0)[1]} == {*kept.changed_of([1, 3, 9, 99])} == {3, 9, 99}


def test_a_renamed_agent_changes_what_it_sent_and_got(kept: MessageStore) -> None:
    kept.db.execute("BEGIN")
    kept.db.execute("DELETE FROM messages")
    assert kept.generation()
    kept.db.execute("ROLLBACK")
    assert (kept.generation(), changed(kept)) == (0, [])
    name, project = TWELVE[0].sender_name, TWELVE[0].project_id
    mail = [m for m in TWELVE if m.project_id == project]
    theirs = sorted(m.message_id for m in mail if name in {m.sender_name, *m.recipients})
    sql = "UPDATE agents SET name = 'New' WHERE name = ? AND project_id = ?"
    kept.db.execute(sql, (name, project))
    assert sorted(changed(kept)) == theirs != []
    assert kept.since(0)[0] == kept.generation()


@pytest.mark.parametrize("seed", range(4))
def test_what_is_given_is_the_message_as_it_is_now(
    path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, ids = Random(seed), range(1, 16)
    with (
        stored(path, (one(at, "moss") for at in range(1, 13))) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        kept, read = Remembered(store), store.hydrate
        reads = Mock(wraps=read)
        monkeypatch.setattr(store, "hydrate", reads)
        other.execute("PRAGMA foreign_keys = ON")
        for step in range(80):
            match rng.randrange(5):
                case 0:
                    other.execute("UPDATE messages SET body = ? WHERE id = ?", (str(step), 3))
                case 1:
                    at = rng.choice(ids)
                    write = changing.update if read([at]) else changing.insert
                    write(store, one(at, f"fern {step}", recipients=("AmberFox",)))
                case 2:
                    other.execute("DELETE FROM messages WHERE id = ?", (rng.choice(ids),))
                case 3:
                    other.execute("UPDATE agents SET name = name || 'x' WHERE id = 1")
                case _:
                    pass
            some = rng.sample(ids, 5)
            assert kept.hydrate(some) == read(some)
    assert sum(len(call.args[0]) for call in reads.mock_calls) < 80 * 5, "it remembered nothing"


def test_an_older_reading_never_takes_the_place_of_a_newer_one(
    three: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, read = Remembered(three), three.hydrate
    edited = replace(read([2])[2], body="edited")

    def slow(message_ids: Iterable[int]) -> Mapping[int, Message]:
        old = read(message_ids)
        monkeypatch.undo()
        changing.update(three, edited)
        assert kept.hydrate([2])[2] == edited, "another thread reads meanwhile"
        return old

    monkeypatch.setattr(three, "hydrate", slow)
    kept.hydrate([2])
    assert kept.hydrate([2])[2] == edited


KILLED = """
import sqlite3
db = sqlite3.connect("{}", isolation_level=None)
db.execute("PRAGMA cache_size = 2")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE messages SET body = 'half done'")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("while_open", [False, True])
def test_a_killed_write_is_undone(full: Path, *, while_open: bool) -> None:
    sql = "SELECT count(*) FROM messages WHERE body = 'half done'"
    with of_mail.opened(full, write=True) as made:
        made.db.execute("UPDATE messages SET body = hex(randomblob(4000))")
    with ExitStack() as stack:
        reads = stack.enter_context(of_mail.opened(full)) if while_open else None
        killed(KILLED.format(full))
        assert full.with_name("mail.db-journal").exists()
        reads = reads or stack.enter_context(of_mail.opened(full))
        assert reads.read(sql) == [(0,)]
    assert not full.with_name("mail.db-journal").exists()


def test_nobody_waits_for_a_writer_and_it_leaves_one_file(full: Path) -> None:
    with of_mail.opened(full) as reads, ingest.opened(full) as writes:
        written = writes.insert(Draft(1, "a subject", "a body", "RedFox"))
        db = writes.store.db
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE messages SET body = 'not yet'")
        reads.db.execute("PRAGMA busy_timeout = 0")
        assert reads.hydrate(written.message_ids)[written.message_ids[0]].body == "a body"
        db.execute("ROLLBACK")
    with of_mail.opened(full) as reads:
        assert reads.hydrate(written.message_ids)
    assert [one.name for one in full.parent.iterdir()] == ["mail.db"]


def test_while_connections_are_busy_another_one_answers(full: Path) -> None:
    soon = Deadline.of(20_000.0)
    with of_mail.opened(full) as mail, mail.borrowed():
        for _ in range(2):
            with mail.borrowed(soon) as one, mail.borrowed(soon) as other:
                assert one is not other
    with of_mail.opened(full) as mail, mail.borrowed() as first, mail.borrowed(soon) as second:
        assert first is mail.db is not second
        assert mail.total_count() == 40
    with of_mail.opened(full) as mail, mail.borrowed():
        full.unlink()
        with pytest.raises(EngineError, match="budget"), mail.borrowed(Deadline(0, 0.0)):
            pytest.fail("a connection to nothing")


def test_a_change_is_counted_although_an_older_statement_runs(full: Path) -> None:
    with of_mail.opened(full) as reads, ingest.opened(full) as writes, ThreadPoolExecutor() as pool:
        before = reads.moved()
        with reads.borrowed() as db:
            running = db.execute("SELECT id FROM messages")
            running.fetchone()
            writes.insert(Draft(1, "a subject", "a body", "RedFox"))
            counted = pool.submit(reads.moved)
            wait([counted], timeout=0.2)
            running.fetchall()
        assert counted.result() != before


WEIGHTS = contract.Weights(subject=2, identifiers=4)
RELEVANCE = RankingMode.RELEVANCE
TYPED = st.text() | st.text("ab部é_-.\"'*+():^~{}[]\\/%\0 \ud800ANDORNOTEAR", max_size=60)
TEXTS = (
    (1, "br 2tnl", "both words, side by side: br 2tnl br 2tnl"),
    (2, "notes", "see br-2tnl for more"),
    (3, "stone", "moss"),
    (4, "moss", "stone"),
    (5, "crash", "migrate and migration"),
    (6, "naïve Straße", "部署 失败 γάμμα cafe\u0301"),
    (7, "it doesn't", "read_csv in src/app/main.py of C++ 100%"),
    (8, "before\0after", "back\\slash"),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fts5Engine]:
    with stored(tmp_path_factory.mktemp("engine") / "mail.db", starmap(one, TEXTS)) as store:
        yield Fts5Engine(store, WEIGHTS)


def ask(engine: Fts5Engine, text: str, filters: Filters | None = None) -> CandidateList:
    return engine.search(text, filters or Filters(), RELEVANCE, 100)


def ids(found: CandidateList) -> list[int]:
    return [at for at, _ in found.candidates]


@pytest.mark.parametrize(
    ("by", "text", "found"),
    [
        ("fts5", "br-2tnl", [2, 1]),
        ("fts5", "BR-2TNL", [2, 1]),
        ("fts5", '"br-2tnl"', [1, 2]),
        ("fts5", "br_2tnl", [1, 2]),
        ("fts5", "doesn't", [7]),
        ("fts5", "src/app/main.py", [7]),
        ("fts5", "read_csv:12", [7]),
        ("fts5", "crash\0boom", [5]),
        ("fts5", "crash AND", [5]),
        ("fts5", "moss -stone", []),
        ("fts5", "subject:crash", [5]),
        ("fts5", "migra*", [5]),
        ("fts5", "migra", []),
        ("fts5", '"migra*"', []),
        ("fts5", "!!! AND crash", [5]),
        ("fts5", "部署", [6]),
        ("fts5", "naive", [6]),
        ("fts5", "strasse", [6]),
        ("fts5", "🎉", []),
        ("fts5", "%", []),
        ("fts5", "after", [8]),
        ("fts5", "src/app/main.py:br-2tnl", [2, 7]),
        ("like", "MOSS", [3, 4]),
        ("like", "moss AND stone", [3, 4]),
        ("like", "notes -moss", [2]),
        ("like", '-moss -"both words" -na*', [2, 5, 7, 8]),
        ("like", '"stone moss"', []),
        ("like", "d_c", [7]),
        ("like", "%", [7]),
        ("like", "\\", [8]),
        ("like", "部署", [6]),
        ("like", "igrat", [5]),
        ("like", "x" * 60_000, []),
    ],
)
def test_what_is_found(engine: Fts5Engine, by: str, text: str, found: list[int]) -> None:
    """By LIKE every term must be there, and messages come by id."""
    asked = engine if by == "fts5" else LikeEngine(engine.store)
    shown = asked.search(text, Filters(), RELEVANCE, 10)
    assert (ids(shown), shown.exhausted) == (found, True)


def test_it_says_what_it_executed(engine: Fts5Engine) -> None:
    found = ask(engine, "stone", Filters(thread_id=""))
    assert found.normalized_query == '"stone"'
    assert found.sql.endswith(" AND m.thread_id = ? ORDER BY score, m.id LIMIT ?")
    again = engine.store.ask(found.sql, (2, 1, 4, found.normalized_query, "", 101))
    assert tuple((at, -score) for at, score in again) == found.candidates


def test_the_last_resort_is_like(engine: Fts5Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "sanitize_fts_query", lambda _: "(")
    monkeypatch.setattr(search, "match_expression", lambda _: Selected("a-b"))
    found = ask(engine, "stone moss")
    assert found.candidates == ((3, 0.0), (4, 0.0))
    assert (found.used_like_fallback, found.normalized_query) == (True, None)
    for part in ("asked LIKE", "no such column: b", "syntax error"):
        assert part in found.note


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE messages_fts",
        "DELETE FROM messages_fts_data",
        "UPDATE messages_fts_data SET block = x'deadbeefdeadbeef'",
    ],
)
def test_a_broken_index_is_not_ready_until_it_is_rebuilt(path: Path, statement: str) -> None:
    with stored(path, starmap(one, TEXTS)):
        run_sql(path, "PRAGMA writable_schema = ON", statement)
    with of_mail.opened(path) as store:
        engine = Fts5Engine(store, WEIGHTS)
        with pytest.raises(IndexUnavailable):
            ask(engine, "br-2tnl")
        assert ids(ask(engine, "")) == [text[0] for text in TEXTS]
        assert LikeEngine(store).search("br-2tnl", Filters(), RELEVANCE, 9).candidates


@pytest.fixture(scope="module")
def fts() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        made = index_of(MESSAGES)["messages_fts"]
        db.execute(made.replace(", content='messages_words', content_rowid='id'", ""))
        yield db


def accepted(fts: sqlite3.Connection, asked: str) -> None:
    fts.execute("SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?", (asked,)).fetchall()


@given(text=TYPED)
@example(text="ÒR")
def test_fts5_refuses_nothing(fts: sqlite3.Connection, text: str) -> None:
    if asked := search.match_expression(text).expression:
        accepted(fts, asked)
    else:
        assert not normalise(text)
    if plain := search.sanitize_fts_query(text):
        accepted(fts, plain)
    else:
        words = "".join(c if c.isalnum() else " " for c in coded(text)).upper().split()
        assert set(words) <= OPERATORS or refusals(text)
