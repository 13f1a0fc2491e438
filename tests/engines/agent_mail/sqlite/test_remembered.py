"""Messages that are remembered are the messages as they are now, whoever changes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from engines.stacks.agent_mail.contract import Message
from engines.stacks.agent_mail.sqlite import store
from engines.stacks.agent_mail.sqlite.store import MessageStore, Remembered
from tests.make.mail import changing
from tests.make.mail.messages import one, stored

MESSAGES = 12


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


def remembering(counted: Counted) -> Remembered:
    return Remembered(cast("MessageStore", counted))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail.db"


@pytest.fixture
def counted(path: Path) -> Iterator[Counted]:
    with stored(path, (one(at, "moss") for at in range(1, MESSAGES + 1))) as store:
        yield Counted(store)


def test_a_message_is_read_once_and_given_in_the_order_asked_for(counted: Counted) -> None:
    kept = remembering(counted)
    assert list(kept.hydrate([3, 77, 1, 3])) == [3, 1]
    assert kept.hydrate([5, 1, 3]) == counted.store.hydrate([5, 1, 3])
    assert list(kept.hydrate([5, 3, 1])) == [5, 3, 1]
    assert counted.asked == [[3, 77, 1, 3], [5]]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_given_is_the_message_as_it_is_now(counted: Counted, path: Path, seed: int) -> None:
    rng, kept = Random(seed), remembering(counted)
    ids = range(1, MESSAGES + 4)
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
    kept = remembering(counted)
    edited = replace(counted.store.hydrate([2])[2], body="edited")
    counted.meanwhile.append(edited)
    assert kept.hydrate([2])[2].body != "edited"
    assert kept.hydrate([2])[2] == edited


def test_an_older_reading_never_takes_the_place_of_a_newer_one(counted: Counted) -> None:
    kept = remembering(counted)
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
    kept = remembering(counted)
    for at in (1, 2, 3, 4, 5):
        kept.hydrate([at])
    kept.hydrate([4, 5])
    assert counted.asked[5:] == []
    kept.hydrate([1])
    assert counted.asked[5:] == [[1]]


def test_a_store_that_began_anew_is_read_anew(counted: Counted, path: Path) -> None:
    kept = remembering(counted)
    changing.update(counted.store, one(1, "fern"))
    assert kept.hydrate([2])[2].subject == "moss"
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE messages SET subject = 'another file' WHERE id = 2")
        other.execute("DELETE FROM changes")
        other.execute("UPDATE generation SET value = 0")
        other.commit()
    assert kept.hydrate([2])[2].subject == "another file"


def test_without_a_journal_every_message_is_read(counted: Counted) -> None:
    kept = remembering(counted)
    kept.hydrate([1])
    counted.store.db.execute("DROP TABLE generation")
    assert list(kept.hydrate([1])) == [1]
    assert counted.asked == [[1], [1]]
