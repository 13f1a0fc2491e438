"""Notes of indexes, tokens of changed messages, and messages that are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from harness_engines.contract import EngineError, InvalidQuery
from harness_engines.rerank.tokens import Half, LateInteraction
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.contract import Importance
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest
from harness_engines.stacks.agent_mail.live import LiveTokens, Note
from harness_engines.stacks.agent_mail.sqlite import journal, store
from harness_engines.stacks.agent_mail.sqlite.store import Kind
from harness_engines.vector.embedder import HashEmbedder, Reading
from tests.make.mail.messages import some_mail, stored


def test_a_note_is_of_one_index_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    note, other = Note(tmp_path / "note"), Note(tmp_path / "note")
    assert note.read() is None
    note.write(3, "a")
    assert [note.read("a"), note.read("b"), other.read("a")] == [3, None, 3]
    other.write(4, "b")
    assert [note.read("a"), note.read("b")] == [None, 4]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"generation": 1}', '{"generation": "1", "of": ""}']
)
def test_what_is_no_note_says_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "note"
    path.write_text(text)
    assert Note(path).read() is None


MESSAGES = some_mail(7, 12).messages
WORDS = HashEmbedder(32)


@dataclass
class Reader:
    """Reads each word of a text as a token, and counts what it read."""

    read_texts: list[str] = field(default_factory=list)
    identity = "words"
    dimension = 32

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return WORDS.embed(texts)

    def read(self, texts: Sequence[str]) -> Reading:
        self.read_texts += texts
        return Reading(self.embed(texts), tuple(WORDS.embed(text.split()) for text in texts))


@dataclass(frozen=True)
class OldTokens:
    """Tokens of every message as one word that no query has."""

    def of(self, text_id: int) -> Half:
        del text_id
        return WORDS.embed(["old"]).astype(np.float16)


def test_a_changed_message_is_read_once_for_each_change(tmp_path: Path) -> None:
    one, other = (message.message_id for message in MESSAGES[:2])
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        with store.writing() as db:
            journal.settle(db)
        reader = Reader()
        live = LiveTokens(LateInteraction(reader, OldTokens(), 0.0), store, store.hydrate)

        def similar() -> list[float]:
            return [hit.raw_score for hit in live.rerank("zeppelin", [one, other], [0.5, 0.5])]

        assert similar() == [0.0, 0.0]
        store.db.execute("UPDATE messages SET subject = 'zeppelin' WHERE id = ?", (one,))
        for _ in range(2):
            assert similar() == [1.0, 0.0]
        changed = [text for text in reader.read_texts if text != "zeppelin"]
        assert len(changed) == 1
        store.db.execute("UPDATE messages SET subject = 'balloon', body = '' WHERE id = ?", (one,))
        assert similar()[0] < 1.0
        store.db.execute("DELETE FROM messages WHERE id = ?", (one,))
        assert similar() == [0.0, 0.0]


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
