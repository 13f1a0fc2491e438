"""A folder of documents, kept searchable: pages, chunks, their words, and what models say."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from engines.stacks.documents import entities, read_by
from engines.stacks.documents.bm25 import Bm25
from engines.stacks.documents.formats import pdf
from engines.stacks.documents.library import Library
from engines.stacks.documents.read_by import Loaded
from engines.stacks.documents.settings import Settings
from engines.stacks.documents.texts import files
from engines.stacks.documents.texts.chunking import Chunk, chunk_id, chunks
from engines.stacks.documents.texts.provenance import Provenance, Span
from engines.stacks.documents.texts.sources import Extraction, Page, Source
from engines.stacks.documents.words import words

BIGGEST = 64 << 20
VERSION = "3"
TABLES = """
CREATE TABLE page (path TEXT NOT NULL, at INTEGER NOT NULL, number INTEGER, text TEXT NOT NULL,
  extraction TEXT NOT NULL, ingested_at TEXT NOT NULL, PRIMARY KEY (path, at)) WITHOUT ROWID;
CREATE TABLE chunk (path TEXT NOT NULL, chunk_index INTEGER NOT NULL, place TEXT NOT NULL,
  text TEXT NOT NULL, terms BLOB NOT NULL, counts BLOB NOT NULL, length INTEGER NOT NULL,
  named TEXT NOT NULL, PRIMARY KEY (path, chunk_index)) WITHOUT ROWID;
CREATE TABLE word (id INTEGER PRIMARY KEY, word TEXT UNIQUE NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """Reads documents; what is kept of one are its pages and its chunks."""

    settings: Settings
    root: Path
    loaded: Loaded
    cache: Path

    @property
    def suffixes(self) -> frozenset[str]:
        return files.SUFFIXES

    @property
    def biggest(self) -> int:
        return BIGGEST

    @property
    def identity(self) -> str:
        layout = "by place" if pdf.has_layout() else "as it comes"
        return f"documents {VERSION} {tuple(self.settings.cutting)}, PDF {layout}"

    @property
    def models(self) -> str:
        there = (self.loaded.embedder, self.loaded.encoder)
        return ", ".join(model.identity for model in there if model is not None)

    @property
    def tables(self) -> str:
        return TABLES + read_by.TABLES

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> None:
        source = files.source(self.root / path, path, data)
        now = datetime.now(UTC).isoformat()
        db.executemany(
            "INSERT INTO page VALUES (?, ?, ?, ?, ?, ?)",
            (
                (path, at, page.number, page.text, source.extraction, now)
                for at, page in enumerate(source.pages)
            ),
        )
        for chunk in chunks(source, self.settings.cutting):
            counted = Counter(words(chunk.text))
            numbers = _numbers(db, counted)
            place = chunk.provenance
            where = [
                *(place.page, place.page_end, place.paragraphs, place.lines),
                *(place.char_start, place.char_end),
            ]
            row = (
                *(path, place.chunk_index, json.dumps(where), chunk.text),
                np.array([numbers[word] for word in counted], dtype=np.int32).tobytes(),
                np.array(list(counted.values()), dtype=np.int32).tobytes(),
                *(counted.total(), json.dumps(sorted(entities.named(chunk.text)))),
            )
            db.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        db.execute("DELETE FROM page WHERE path = ?", (path,))
        db.execute("DELETE FROM chunk WHERE path = ?", (path,))

    def complete(self, db: sqlite3.Connection) -> None:
        texts = [row[0] for row in db.execute("SELECT text FROM chunk")]
        self.loaded.complete(db, texts, self.cache)


class Read(NamedTuple):
    """What an index holds, in the order of its chunks."""

    library: Library
    words: Bm25
    named: tuple[tuple[str, ...], ...]
    """Entities of each chunk."""
    ingested: Mapping[str, str]
    """When each document was read."""


def read(db: sqlite3.Connection, root: Path) -> Read:
    """Read the chunks of an index, by their ids."""
    pages: dict[str, list[Page]] = {}
    about: dict[str, tuple[Extraction, str]] = {}
    for path, number, text, extraction, when in db.execute(
        "SELECT path, number, text, extraction, ingested_at FROM page ORDER BY path, at"
    ):
        pages.setdefault(path, []).append(Page(number, text))
        about[path] = (extraction, when)
    sources = {
        path: Source(path, PurePosixPath(path).name, str(root / path), tuple(held), about[path][0])
        for path, held in pages.items()
    }
    rows = db.execute(
        "SELECT path, chunk_index, place, text, terms, counts, length, named FROM chunk"
    ).fetchall()
    rows.sort(key=lambda row: chunk_id(row[0], row[1]))
    made = tuple(Chunk(_place(sources[row[0]], row[1], json.loads(row[2])), row[3]) for row in rows)
    numbers = dict(db.execute("SELECT word, id FROM word").fetchall())
    counted = [(row[4], row[5], row[6]) for row in rows]
    named = tuple(tuple(json.loads(row[7])) for row in rows)
    ingested = {path: when for path, (_, when) in about.items()}
    return Read(Library(sources, made), Bm25.joined(numbers, counted), named, ingested)


def _place(source: Source, index: int, said: list[Any]) -> Provenance:
    page, page_end, paragraphs, lines, start, end = said
    return Provenance(
        document=source.name,
        document_path=source.path,
        document_id=source.document_id,
        chunk_id=chunk_id(source.document_id, index),
        chunk_index=index,
        page=page,
        page_end=page_end,
        paragraphs=Span(*paragraphs),
        lines=Span(*lines),
        char_start=start,
        char_end=end,
    )


def _numbers(db: sqlite3.Connection, counted: Mapping[str, int]) -> Mapping[str, int]:
    """Give the numbers of a chunk's words; a new word gets one."""
    db.executemany("INSERT OR IGNORE INTO word (word) VALUES (?)", ((word,) for word in counted))
    held = db.execute(
        "SELECT word, id FROM word WHERE word IN (SELECT value FROM json_each(?))",
        (json.dumps(list(counted)),),
    )
    return dict(held.fetchall())
