"""The store gives back what was put in, and its index follows every write."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engines.contract import EngineError, IndexUnavailable
from engines.stacks.agent_mail.contract import Change, DocChange, Filters, Message, RankingMode
from engines.stacks.agent_mail.sqlite.search import Fts5Engine, Weights
from engines.stacks.agent_mail.sqlite.store import Kind, MessageStore, create, opened
from tests.make.mail import changing
from tests.make.mail.messages import AGENTS, PRODUCTS, Mail, kinds, one, some_mail, stored


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail.db"


@pytest.fixture
def three(path: Path) -> Iterator[MessageStore]:
    messages = (one(1, "salt", "water"), one(2, "moss", "br-2tnl"), one(5, "fern", "stone"))
    with stored(path, messages) as made:
        yield made


def found(store: MessageStore, text: str) -> list[int]:
    engine = Fts5Engine(store, Weights(2.0, 1.0, 4.0))
    answer = engine.search(text, Filters(), RankingMode.RELEVANCE, 10)
    return [candidate.message_id for candidate in answer.candidates]


def touched(store: MessageStore) -> int:
    return int(store.ask("SELECT sum(length(block)) + count(*) FROM messages_fts_data")[0][0])


def test_every_message_comes_back_as_it_was_put_in(store: MessageStore, mail: Mail) -> None:
    ids = list(mail.by_id)[::-1]
    assert dict(store.hydrate(ids)) == mail.by_id
    assert list(store.hydrate(ids)) == ids
    assert store.total_count() == len(mail.messages)


def test_how_it_is_addressed_comes_back(store: MessageStore, mail: Mail) -> None:
    assert {k for m in mail.messages for k in kinds(m).values()} == set(Kind)
    for message in mail.messages:
        assert store.kinds_of(message.message_id) == kinds(message)


def test_whoever_is_not_said_to_be_otherwise_is_to(three: MessageStore) -> None:
    changing.insert(three, one(9, recipients=("Zoë", "AmberFox", "Zoë")), {"AmberFox": Kind.BCC})
    assert three.kinds_of(9) == {"Zoë": Kind.TO, "AmberFox": Kind.BCC}
    assert three.hydrate([9])[9].recipients == ("Zoë", "AmberFox")


def test_batches_are_by_id_and_miss_nothing(store: MessageStore, mail: Mail) -> None:
    seen: list[Message] = []
    since = 0
    while batch := store.fetch_batch(since, 37):
        assert len(batch) <= 37
        seen += batch
        since = batch[-1].message_id
    assert tuple(seen) == mail.messages
    assert store.fetch_batch(0, 0) == store.fetch_batch(0, -1) == []


def test_ids_that_are_gone_are_left_out(three: MessageStore) -> None:
    assert list(three.hydrate([5, 77, 1, 5])) == [5, 1]
    assert three.sent([5, 77]) == {5: three.hydrate([5])[5].created_ts}
    assert three.hydrate([]) == {}


def test_more_ids_than_a_statement_has_room_for(three: MessageStore) -> None:
    assert list(three.hydrate(range(100_000))) == [1, 2, 5]


def test_writes_say_what_changed(three: MessageStore) -> None:
    message = one(9, "reed")
    assert changing.insert(three, message) == DocChange(Change.UPSERT, 9, message)
    edited = replace(message, subject="rush")
    assert changing.update(three, edited) == DocChange(Change.UPSERT, 9, edited)
    assert three.hydrate([9]) == {9: edited}
    assert changing.delete(three, 9) == DocChange(Change.DELETE, 9)
    assert three.hydrate([9]) == {}
    assert three.ask("SELECT * FROM recipients WHERE message_id = 9") == []


@pytest.mark.parametrize(
    ("edited", "old"),
    [(one(2, "reed_bed-7 now", "br-2tnl"), "moss"), (one(2, "moss", "reed_bed-7 now"), "br-2tnl")],
)
def test_after_an_edit_the_new_is_found_and_not_the_old(
    three: MessageStore, edited: Message, old: str
) -> None:
    assert found(three, old) == [2]
    changing.update(three, edited)
    assert found(three, "now") == found(three, "reed_bed-7") == [2]
    assert found(three, old) == []


def test_after_a_deletion_nothing_is_found(three: MessageStore) -> None:
    changing.delete(three, 2)
    assert found(three, "moss") == found(three, "br-2tnl") == []
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
        engine = Fts5Engine(store, Weights(2.0, 1.0, 4.0))
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


def test_an_update_writes_all_or_nothing(three: MessageStore) -> None:
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


def test_projects_and_products_are_known_by_name(three: MessageStore) -> None:
    assert three.project_called("quarry") == 3
    assert three.project_called("Quarry") is None
    assert three.product_called("product-2") == 2
    assert three.product_called("none") is None
    assert {p: three.projects_of_product(p) for p in (1, 2, 3)} == PRODUCTS
    assert three.projects_of_product(404) == frozenset()


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


def test_what_one_writes_the_other_reads(path: Path) -> None:
    with stored(path, []), opened(path) as reader, opened(path, write=True) as writer:
        changing.insert(writer, one(1, "salt"))
        assert found(reader, "salt") == [1]


def test_the_same_messages_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        with stored(tmp_path / name, some_mail(3, 50).messages):
            pass
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_threads_may_share_it(three: MessageStore) -> None:
    def write(first: int) -> None:
        for message_id in range(first, first + 40):
            changing.insert(three, one(message_id, "reed"))

    def read(failed: list[str]) -> None:
        failed.extend("salt" for _ in range(40) if found(three, "salt") != [1])

    failed: list[str] = []
    work = [threading.Thread(target=write, args=(first,)) for first in (100, 200)]
    work += [threading.Thread(target=read, args=(failed,)) for _ in range(2)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert three.total_count() == 83
    assert not failed


def test_a_store_is_not_made_over_another(path: Path) -> None:
    path.write_text("kept")
    with pytest.raises(FileExistsError, match=r"mail\.db"), create(path):
        pass
    assert path.read_text() == "kept"


def not_ready(path: Path) -> None:
    with pytest.raises(IndexUnavailable, match=r"mail\.db"), opened(path):
        pass


def test_a_store_that_is_missing_or_no_database_is_not_ready(path: Path) -> None:
    not_ready(path)
    assert not path.exists()
    path.write_bytes(b"no database" * 1_000)
    not_ready(path)


def test_a_store_of_another_version_is_not_ready(path: Path) -> None:
    with stored(path, []):
        pass
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
    not_ready(path)


def test_without_its_tables_reading_is_not_ready(three: MessageStore) -> None:
    three.ask("DROP TABLE recipients")
    with pytest.raises(IndexUnavailable, match="no such table"):
        three.hydrate([1])


def test_closed_it_is_an_error_of_the_engine(path: Path) -> None:
    with stored(path, []) as store:
        pass
    with pytest.raises(EngineError):
        store.total_count()
