"""Chunks of notes in SQLite."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from engines.stacks.writing.store import FILE, Store, write
from harness.core.errors import DatasetError
from harness.core.records import Document

NOTES = (
    Document("b", "Tides", "The moon pulls.\n\nThe sea rises."),
    Document("a", "Sea", "Salt and water."),
    Document("c", "", ""),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / FILE, NOTES, "porter unicode61", 16)
    return tmp_path / FILE


def test_chunks_are_found_and_read(path: Path) -> None:
    store = Store.open(path, 2.0, 40)
    with closing(store.db):
        assert store.documents() == len(NOTES)
        assert store.count('"sea"') == 2
        ids = list(store.find('"sea"', 10))
        read = store.chunks(ids, '"sea"')
        assert store.chunks(ids[:1], '"sea"').keys() == {ids[0]}
        found = [read[rowid] for rowid in ids]
        assert [(one.doc_id, one.number) for one in found] == [("a", 0), ("b", 1)]
        assert found[1].passage == "The sea rises."
        assert found[1].ref == "doc:b#chunk:1"
        assert len(store.find('"sea"', 1)) == 1
        (stemmed,) = store.find('"pulling"', 10)
        assert store.chunks([stemmed], '"pulling"')[stemmed].passage == "The moon pulls."


def test_an_absolute_path_is_refused_before_it_can_be_shown(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="absolute path"):
        write(tmp_path / FILE, [Document("/etc/a.md", "", "x")], "unicode61", 0)


def test_what_is_not_whole_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        Store.open(tmp_path / "none.db", 2.0, 40)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM chunk WHERE doc_id = 'a'")
    store = Store.open(path, 2.0, 40)
    with closing(store.db):
        assert store.documents() == -1


def test_a_note_that_says_one_word_very_often_is_quick_to_read(tmp_path: Path) -> None:
    """The time of FTS5's ``snippet`` grows with the square: 40,000 words took 40 s."""
    write(tmp_path / FILE, [Document("a", "", f"first {'balo ' * 40_000}")], "unicode61", 0)
    store = Store.open(tmp_path / FILE, 2.0, 40)
    with closing(store.db):
        before = time.process_time()
        found = store.chunks([1], '"balo"')[1]
        assert time.process_time() - before < 5
    assert found.passage.startswith("balo balo")
    assert len(found.passage) < 1000


def test_few_places_of_a_long_note_give_the_passage_that_has_most(tmp_path: Path) -> None:
    text = f"sea {'word ' * 3000} the sea and the moon"
    write(tmp_path / FILE, [Document("a", "", text)], "unicode61", 0)
    store = Store.open(tmp_path / FILE, 2.0, 8)
    with closing(store.db):
        assert "sea and the moon" in store.chunks([1], '"sea" OR "moon"')[1].passage
