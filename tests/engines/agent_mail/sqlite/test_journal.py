"""The journal: every change of a message, whoever makes it, once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.stacks.agent_mail.contract import Change
from engines.stacks.agent_mail.sqlite import journal
from engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.make.mail.messages import some_mail, stored

MESSAGES = some_mail(7, 12).messages


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[MessageStore]:
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        with store.writing() as db:
            journal.settle(db)
        yield store


def changed(store: MessageStore, reached: int = 0) -> list[tuple[int, Change]]:
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


def test_a_renamed_agent_changes_what_it_sent_and_got(kept: MessageStore) -> None:
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


def test_of_a_message_the_last_change_is_kept_and_a_new_id_leaves_the_old_one(
    kept: MessageStore,
) -> None:
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


def test_batches_divide_no_generation_and_lose_nothing(
    kept: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_change_that_is_taken_back_was_none(kept: MessageStore) -> None:
    kept.db.execute("BEGIN")
    kept.db.execute("DELETE FROM messages")
    assert journal.generation(kept)
    kept.db.execute("ROLLBACK")
    assert (journal.generation(kept), changed(kept)) == (0, [])
