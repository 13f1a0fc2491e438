"""Indexes follow what is written, and notes of what changed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from threading import Event
from time import sleep
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from harness_engines.contract import EngineError, InvalidQuery
from harness_engines.rerank.tokens import Half, LateInteraction
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.budget import Deadline
from harness_engines.stacks.agent_mail.contract import (
    DocChange,
    Importance,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest
from harness_engines.stacks.agent_mail.live import IndexNote, LiveIndexes, LiveTokens, LiveWords
from harness_engines.stacks.agent_mail.mcp_tools.search import ServedIndex, Surface
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.sqlite import journal, store
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind
from harness_engines.vector.embedder import HashEmbedder, ModelPass
from tests.engines.agent_mail import live_writer as writer
from tests.engines.agent_mail.tools import Names, Tools
from tests.make.mail_engines import built_live as built
from tests.make.mail_engines import check_agree, served, table
from tests.make.mail_messages import some_mail, stored
from tests.source import ROOT

MODES = ["lexical", "semantic", "hybrid"]
NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob",))


def write(index: Path, sql: str) -> None:
    """Change the table behind the back of everyone, as another program does."""
    with closing(sqlite3.connect(index / mail.STORE)) as db, db:
        db.execute(sql)


def found(searcher: MailSearcher, text: str) -> list[str]:
    """Search; every answer is signed as the arm's and says nothing of a stale index."""
    answer = searcher.search(text, 10)
    assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
    return [hit.doc_id for hit in answer.hits]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_each_write_is_found_at_the_next_query(tmp_path: Path, mode: str) -> None:
    index = built(tmp_path, mode=mode)
    with served(tmp_path, mode=mode) as searcher, ingest.opened(index / mail.STORE) as box:
        assert found(searcher, "zeppelin") == []
        (new,) = box.insert(NEW).message_ids
        assert found(searcher, "zeppelin") == [f"message {new}"]
        box.edit(new, subject="balloon")
        assert found(searcher, "zeppelin") == []
        assert found(searcher, "balloon") == [f"message {new}"]
        write(index, "UPDATE messages SET subject = 'zeppelin' WHERE id = 5")
        assert found(searcher, "zeppelin") == ["m05"]
        box.delete(5)
        box.delete(new)
        assert found(searcher, "zeppelin") == found(searcher, "balloon") == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_restart_with_a_moved_table_catches_up(tmp_path: Path, mode: str) -> None:
    index = built(tmp_path, mode=mode)
    with served(tmp_path, mode=mode) as searcher:
        built_of = searcher.manifest
    with ingest.opened(index / mail.STORE) as box:
        (new,) = box.insert(NEW).message_ids
    with served(tmp_path, mode=mode) as searcher:
        assert found(searcher, "zeppelin") == [f"message {new}"]
        assert searcher.manifest.documents == built_of.documents + 1
        assert searcher.manifest.fingerprint != built_of.fingerprint
        assert searcher.generation
        assert isinstance(searcher.service.fresh, LiveIndexes)
        searcher.service.fresh.catch_up()
    check_agree(index)


@pytest.mark.slow
def test_a_replaced_vector_file_is_noticed_and_put_right(tmp_path: Path) -> None:
    index = built(tmp_path, mode="semantic")
    with served(tmp_path, mode="semantic") as searcher:
        before = found(searcher, "lunch")
        other = built(tmp_path / "other", documents=[], mode="semantic")
        (other / mail.VECTORS).replace(index / mail.VECTORS)
        assert found(searcher, "lunch") == before
    check_agree(index)


@pytest.mark.slow
def test_an_index_that_is_ahead_of_its_table_is_built_anew(tmp_path: Path) -> None:
    index = built(tmp_path, mode="hybrid")
    old = (index / mail.STORE).read_bytes()
    with served(tmp_path, mode="hybrid") as searcher, ingest.opened(index / mail.STORE) as box:
        box.insert(NEW)
        assert found(searcher, "zeppelin")
    (index / mail.STORE).write_bytes(old)
    with served(tmp_path, mode="hybrid") as searcher:
        assert found(searcher, "zeppelin") == []
    check_agree(index)


@dataclass
class Slow:
    """An index that catches up when it is let."""

    let: Event = field(default_factory=Event)
    reached: int | None = 0

    def apply(self, changes: Sequence[DocChange], generation: int) -> None:
        del changes
        self.let.wait(60)
        self.reached = generation

    def reindex(self, generation: int) -> None:
        raise AssertionError(generation)


@pytest.mark.slow
def test_who_is_late_goes_on_and_the_queries_meanwhile_are_told(tmp_path: Path) -> None:
    index = built(tmp_path)
    with store.opened(index / mail.STORE) as watched:
        slow = Slow()
        live = LiveIndexes(watched, {"tantivy": cast("LiveWords", slow)}, tmp_path / "live")
        write(index, "DELETE FROM messages WHERE id = 5")
        allowed = Deadline.of(50)
        assert allowed is not None
        said = [live.current(FallbackTier.TANTIVY, allowed.share(last=True)) for _ in range(2)]
        assert said[0].startswith("index_stale: past its budget of ")
        assert said[1] == "index_stale: still busy with an earlier query"
        assert live.current(FallbackTier.FTS5) == live.current(FallbackTier.LIKE) == ""
        slow.let.set()
        while live.current(FallbackTier.TANTIVY, allowed.share(last=True)):
            allowed = Deadline.of(5_000)
            assert allowed is not None
        assert slow.reached == 1


class Broken(Slow):
    """An index that cannot be written."""

    def apply(self, changes: Sequence[DocChange], generation: int) -> None:
        raise EngineError(f"{len(changes)} changes up to {generation}")


@pytest.mark.slow
def test_an_answer_that_may_miss_a_change_is_not_signed(tmp_path: Path) -> None:
    index = built(tmp_path)
    with served(tmp_path) as searcher:
        assert isinstance(searcher.service.fresh, LiveIndexes)
        stuck = replace(searcher.service.fresh, indexes={"tantivy": cast("LiveWords", Broken())})
        service = replace(searcher.service, fresh=stuck)
        asked = replace(searcher, service=service)
        identity = ServedIndex("mine", searcher.manifest)
        tools = Tools(Surface(service, Names(), identity, SearchMode.LEXICAL))
        assert "diagnostics" not in tools.found()
        write(index, "DELETE FROM messages WHERE id = 5")
        answer = asked.search("review", 5)
        assert answer.note == "index_stale: 1 changes up to 1"
        assert answer.served_by != searcher.manifest.fingerprint
        seen = tools.found()
        assert seen["diagnostics"]["signals"] == ["index_stale"]
        assert seen["diagnostics"]["degraded"] is True
        assert seen["served_by"]["fingerprint"] != searcher.manifest.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("visible", [True, False])
def test_a_viewer_is_told_of_what_it_sees_alone(tmp_path: Path, *, visible: bool) -> None:
    index = built(tmp_path, mode="semantic")
    with served(tmp_path, mode="semantic") as searcher:
        assert isinstance(searcher.service.fresh, LiveIndexes)
        stuck = replace(searcher.service.fresh, indexes={"vectors": cast("LiveWords", Broken())})
        write(index, "UPDATE messages SET subject = 'lunch too' WHERE id = 5")
        shown = Visibility.ALLOW if visible else Visibility.DENY
        scope = Scope("most", lambda m: shown if m.message_id == 5 else Visibility.ALLOW)
        query = SearchQuery("review", mode=SearchMode.SEMANTIC)
        answer = replace(searcher.service, fresh=stuck).search(query, scope)
        assert answer.stale is visible
        assert ("index_stale: a message may be missing" in answer.explain.note) is visible


@pytest.mark.slow
def test_a_viewer_finds_what_was_inserted_in_each_mode(tmp_path: Path) -> None:
    index = built(tmp_path, mode="hybrid")
    everyone = Scope("everyone", lambda _: Visibility.ALLOW)
    with served(tmp_path, mode="hybrid") as searcher, ingest.opened(index / mail.STORE) as box:
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC, SearchMode.HYBRID):
            text = f"{mode} zeppelin"
            (new,) = box.insert(replace(NEW, subject=text)).message_ids
            answer = searcher.service.search(SearchQuery(text, mode=mode), everyone)
            assert answer.hits[0].message_id == new
            assert not answer.degraded


def cut_and_ask(folder: Path, mode: str) -> None:
    """Search, cut the files that this mode reads to nothing, and search again."""
    index = folder / "index"
    with served(folder, mode=mode) as searcher:
        before = searcher.search("review", 5)
        assert before.served_by == searcher.manifest.fingerprint
        mapped = {".idx", ".term", ".store", ".fast"}
        tantivy = (index / mail.TANTIVY / "index").glob("*.*")
        for path in [index / mail.VECTORS, *(one for one in tantivy if one.suffix in mapped)]:
            os.truncate(path, 64)
        after = searcher.search("review", 5)
        assert {hit.doc_id for hit in after.hits} == {hit.doc_id for hit in before.hits}
        assert after.served_by != searcher.manifest.fingerprint
        assert "answered by fts5" in after.note


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lexical", "semantic", "hybrid"])
def test_a_file_that_is_cut_short_is_an_error_and_no_signal(tmp_path: Path, mode: str) -> None:
    built(tmp_path, mode=mode)
    code = (
        "import sys; from pathlib import Path;"
        " from tests.engines.agent_mail import test_live as test_follow"
    )
    ask = f"{code}; test_follow.cut_and_ask(Path(sys.argv[1]), sys.argv[2])"
    words = [sys.executable, "-c", ask, str(tmp_path), mode]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


MOMENTS = 50
LONGEST_S = 0.6
"""Of work before the kill; a round of changes and indexing takes about a tenth of a second."""
AT_ONCE = 2
"""Kills of one index, one after the other."""


def killed(folder: Path, seed: int) -> tuple[dict[int, str], str | None]:
    """Let the writer work for a while, and kill it.

    Gives what it said it wrote, subjects by id, and the subject of a change that it announced and
    did not say: the kill may have come before that change or after it.
    """
    words = [sys.executable, "-m", writer.__name__, str(folder), str(seed)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        sleep(Random(seed).uniform(0, LONGEST_S))
        process.kill()
        lines = [line.rstrip("\n") for line in process.stdout if line.endswith("\n")]
    said: dict[int, str] = {}
    announced: str | None = None
    for first, _, subject in (line.partition(" ") for line in lines):
        if first == ">":
            announced = subject
        else:
            said[int(first)], announced = subject, None
    return said, announced


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, MOMENTS, AT_ONCE))
def test_after_a_kill_all_indexes_agree_with_the_table(tmp_path: Path, first: int) -> None:
    index = built(tmp_path, mode="hybrid")
    for seed in range(first, first + AT_ONCE):
        said, announced = killed(tmp_path, seed)
        with served(tmp_path, mode="hybrid") as searcher:
            for text in ("review", "lunch plan"):
                answer = searcher.search(text, 1_000)
                assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
            assert isinstance(searcher.service.fresh, LiveIndexes)
            searcher.service.fresh.catch_up()
        now = table(index)
        for number, subject in said.items():
            assert (now[number].subject if number in now else "") in (subject, announced)
        check_agree(index)


def test_a_note_is_of_one_index_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    note, other = IndexNote(tmp_path / "note"), IndexNote(tmp_path / "note")
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
    assert IndexNote(path).read() is None


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

    def read(self, texts: Sequence[str]) -> ModelPass:
        self.read_texts += texts
        return ModelPass(self.embed(texts), tuple(WORDS.embed(text.split()) for text in texts))


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


NEW_NOTES = replace(NEW, recipients=("Bob", "Cid"), created_ts=7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with stored(tmp_path / "mail.db", some_mail(7, 40).messages):
        return tmp_path / "mail.db"


@pytest.fixture
def box(path: Path) -> Iterator[Ingest]:
    with ingest.opened(path) as made:
        yield made


def test_an_edit_changes_only_the_fields_named(box: Ingest) -> None:
    done = box.insert(NEW_NOTES, {"Cid": AddressKind.BCC})
    (new,) = done.message_ids
    assert box.store.hydrate([new])[new] == NEW_NOTES.numbered(new)
    edited = box.edit(new, subject="balloon", importance=Importance.HIGH)
    assert edited.generation > done.generation
    now = box.store.hydrate([new])[new]
    assert (now.subject, now.body, now.importance) == ("balloon", NEW_NOTES.body, Importance.HIGH)
    assert box.store.kinds_of(new) == {"Bob": AddressKind.TO, "Cid": AddressKind.BCC}
    (new,) = box.insert(NEW_NOTES).message_ids
    box.delete(new)
    assert box.insert_all([NEW_NOTES, NEW_NOTES]).message_ids == (new + 1, new + 2)


def test_what_cannot_be_meant_changes_nothing(box: Ingest, path: Path) -> None:
    before = box.store.read("SELECT value FROM generation")
    with pytest.raises(InvalidQuery, match="project 999 is missing; add it first"):
        box.insert_all([NEW_NOTES, Draft(999, "", "", "Ann")])
    for change in (box.delete, lambda at: box.edit(at, subject="x")):
        with pytest.raises(InvalidQuery, match="message 999 is missing"):
            change(999)
    assert box.store.read("SELECT value FROM generation") == before
    with store.opened(path) as reads, pytest.raises(EngineError, match="cannot be written"):
        Ingest(reads).insert(NEW_NOTES)
