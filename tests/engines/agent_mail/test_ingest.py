"""Messages written while they are searched: new ids, what stays, and what cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.contract import EngineError, InvalidQuery
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.contract import Importance
from engines.stacks.agent_mail.ingest import Draft, Ingest
from engines.stacks.agent_mail.sqlite import store
from engines.stacks.agent_mail.sqlite.store import Kind
from tests.make.mail.messages import some_mail, stored

NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob", "Cid"), created_ts=7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with stored(tmp_path / "mail.db", some_mail(7, 40).messages) as made:
        if made.project_called("one") is None and not made.read(
            "SELECT 1 FROM projects WHERE id=1"
        ):
            made.add_project(1, "one")
    return tmp_path / "mail.db"


@pytest.fixture
def box(path: Path) -> Iterator[Ingest]:
    with ingest.opened(path) as made:
        yield made


def test_a_new_message_is_what_was_given_and_an_edit_changes_only_what_is_named(
    box: Ingest,
) -> None:
    done = box.insert(NEW, {"Cid": Kind.BCC})
    (new,) = done.message_ids
    assert box.store.hydrate([new])[new] == NEW.numbered(new)
    edited = box.edit(new, subject="balloon", importance=Importance.HIGH)
    assert edited.generation > done.generation
    now = box.store.hydrate([new])[new]
    assert (now.subject, now.body, now.importance) == ("balloon", NEW.body, Importance.HIGH)
    assert box.store.kinds_of(new) == {"Bob": Kind.TO, "Cid": Kind.BCC}


def test_an_id_is_not_given_twice(box: Ingest) -> None:
    (new,) = box.insert(NEW).message_ids
    box.delete(new)
    assert box.insert_all([NEW, NEW]).message_ids == (new + 1, new + 2)


def test_what_cannot_be_meant_changes_nothing(box: Ingest) -> None:
    before = box.store.read("SELECT value FROM generation")
    with pytest.raises(InvalidQuery, match="project 999 is missing; add it first"):
        box.insert_all([NEW, Draft(999, "", "", "Ann")])
    for change in (box.delete, lambda at: box.edit(at, subject="x")):
        with pytest.raises(InvalidQuery, match="message 999 is missing"):
            change(999)
    assert box.store.read("SELECT value FROM generation") == before


def test_a_table_that_cannot_be_written_says_so(path: Path) -> None:
    with store.opened(path) as reads, pytest.raises(EngineError, match="cannot be written"):
        Ingest(reads).insert(NEW)
