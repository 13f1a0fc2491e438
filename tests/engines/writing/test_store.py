"""Chunks of notes in SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.kept.index import built
from engines.stacks.writing.store import TABLES, Store, put
from harness.core.errors import DatasetError
from harness.core.records import Document

NOTES = (
    Document("b", "Tides", "The moon pulls.\n\nThe sea rises."),
    Document("a", "Sea", "Salt and water."),
    Document("c", "", ""),
)


@contextmanager
def stored(
    folder: Path, notes: Sequence[Document], characters: int = 0, words: int = 40
) -> Iterator[Store]:
    with built(folder, TABLES.format(tokenize="porter unicode61")) as db:
        put(db, notes, characters)
        yield Store(db, 2.0, words)


def test_chunks_are_found_and_read(tmp_path: Path) -> None:
    with stored(tmp_path, NOTES, 16) as store:
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
    absolute = [Document("/etc/a.md", "", "x")]
    with pytest.raises(DatasetError, match="absolute path"), stored(tmp_path, absolute):
        pass


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    with stored(tmp_path, NOTES) as store:
        store.db.execute("DELETE FROM chunk WHERE doc_id = 'a'")
        assert store.documents() == -1


def test_a_note_that_says_one_word_very_often_is_quick_to_read(tmp_path: Path) -> None:
    """The time of FTS5's ``snippet`` grows with the square: 40,000 words took 40 s."""
    with stored(tmp_path, [Document("a", "", f"first {'balo ' * 40_000}")]) as store:
        before = time.process_time()
        found = store.chunks([1], '"balo"')[1]
        assert time.process_time() - before < 5
    assert found.passage.startswith("balo balo")
    assert len(found.passage) < 1000


def test_few_places_of_a_long_note_give_the_passage_that_has_most(tmp_path: Path) -> None:
    text = f"sea {'word ' * 3000} the sea and the moon"
    with stored(tmp_path, [Document("a", "", text)], words=8) as store:
        assert "sea and the moon" in store.chunks([1], '"sea" OR "moon"')[1].passage
