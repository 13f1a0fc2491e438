"""``sqlite.readers``: a statement that runs long holds up no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.stacks.agent_mail.budget import CURRENT, Deadline
from engines.stacks.agent_mail.sqlite import schema, store
from engines.stacks.agent_mail.sqlite.store import DeadlineStore
from tests.make.mail import changing
from tests.make.mail.messages import some_mail, stored

COUNTED = "SELECT count(*) FROM messages"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with stored(tmp_path / "mail.db", some_mail(3, 20).messages):
        return tmp_path / "mail.db"


def test_while_connections_are_busy_another_one_answers(path: Path) -> None:
    with store.opened(path) as mail, mail.borrowed() as first, mail.borrowed() as second:
        assert first is mail.db is not second
        assert mail.ask(COUNTED) == [(20,)]
        assert DeadlineStore.of(mail).ask(COUNTED) == [(20,)]


def test_so_many_and_no_more_are_lent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MAX_READERS", 1)
    with store.opened(path) as mail, mail.borrowed(), mail.borrowed() as second:
        with mail.borrowed(0.0) as none:
            assert none is None
        late = CURRENT.set(Deadline(0, 1.0))
        try:
            with pytest.raises(Exception, match="past its budget"):
                DeadlineStore.of(mail).ask(COUNTED)
        finally:
            CURRENT.reset(late)
        assert second is not None
    with store.opened(path) as mail, mail.borrowed():
        with mail.borrowed() as again:
            made = again
        with mail.borrowed() as again:
            assert again is made


def test_a_connection_that_came_back_is_lent_to_one_at_a_time(path: Path) -> None:
    with store.opened(path) as mail, mail.borrowed():
        with mail.borrowed() as one, mail.borrowed() as other:
            assert one is not other
        with mail.borrowed() as one, mail.borrowed() as other:
            assert one is not other


def test_a_store_that_is_written_has_one_connection(path: Path) -> None:
    with store.opened(path, write=True) as mail, mail.borrowed(), mail.borrowed(0.0) as none:
        assert (none, mail.readers) == (None, None)


def test_a_store_that_is_gone_lends_no_more(path: Path) -> None:
    with store.opened(path) as mail, mail.borrowed():
        path.unlink()
        assert mail.readers is not None
        assert mail.readers.take() is None


def test_a_change_of_another_connection_is_a_new_generation(path: Path) -> None:
    with store.opened(path) as mail, store.opened(path, write=True) as other:
        before = mail.generation()
        assert mail.generation() == before
        changing.delete(other, some_mail(3, 20).messages[0].message_id)
        assert mail.generation() != before
