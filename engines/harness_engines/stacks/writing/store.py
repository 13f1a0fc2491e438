"""Notes in chunks, and their chunks in SQLite, searched by FTS5."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from harness.core.errors import DatasetError
from harness.core.records import Document
from harness_engines.lexical.terms import indexed, passage

_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file:", re.IGNORECASE)
_PARAGRAPH = re.compile(r"\n\s*\n")
_SPACE = re.compile(r"\s")


def source_ref(doc_id: str, chunk: int) -> str:
    """Name a chunk: ``doc:ID#chunk:N``, the id percent-encoded where it must be."""
    if _ABSOLUTE.match(doc_id):
        raise DatasetError(
            f"document {doc_id!r}: its id is an absolute path;"
            " name it by its path inside of the project"
        )
    return f"doc:{quote(doc_id, safe='/')}#chunk:{chunk}"


def chunks(text: str, most: int) -> Iterator[str]:
    """Cut a text between paragraphs into chunks of at most ``most`` characters."""
    if not most or len(text) <= most:
        yield text.strip()
        return
    held = ""
    for paragraph in _PARAGRAPH.split(text):
        rest = paragraph.strip()
        if held and len(held) + 2 + len(rest) <= most:
            held = f"{held}\n\n{rest}"
            continue
        if held:
            yield held
        while len(rest) > most:
            piece = trimmed(rest, most)
            yield piece
            rest = rest[len(piece) :].lstrip()
        held = rest
    if held:
        yield held


def trimmed(text: str, most: int) -> str:
    """Keep at most ``most`` characters, up to the end of a word where there is one."""
    if len(text) <= most:
        return text.rstrip()
    if _SPACE.match(text[most]):
        return text[:most].rstrip()
    cut = text[:most]
    ends = [space.start() for space in _SPACE.finditer(cut)]
    return cut[: ends[-1]].rstrip() if ends and cut[: ends[-1]].strip() else cut


def shown(title: str, passage: str, most: int) -> str:
    """Make the snippet of a chunk: what a person reads and what the model ranks, one text."""
    return trimmed(f"{title}\n{passage}".strip(), most)


TABLES = """CREATE TABLE chunk (id INTEGER PRIMARY KEY, doc_id TEXT NOT NULL,
  number INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
  indexed_title TEXT, indexed_text TEXT, UNIQUE (doc_id, number));
CREATE VIEW indexed AS SELECT id, coalesce(indexed_title, title) AS title,
  coalesce(indexed_text, text) AS text FROM chunk;
CREATE VIRTUAL TABLE search USING fts5(title, text, content='indexed', content_rowid='id',
  tokenize='{tokenize}');
"""
INSERT = (
    "INSERT INTO chunk (doc_id, number, title, text, indexed_title, indexed_text)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
MANY, MARK = 1000, "\x01"
"""Places of a query in a chunk, above which the first passage is shown and not the best. The time
that FTS5 looks for the best grows with their square. The other marks places to count them."""
PASSAGES = """
SELECT search.rowid, doc_id, number, chunk.title, chunk.text,
CASE WHEN length(chunk.text) > :many AND :many <
    length(highlight(search, 1, :mark, '')) - length(highlight(search, 1, '', ''))
  THEN replace(substr(highlight(search, 1, :mark, ''),
    instr(highlight(search, 1, :mark, ''), :mark), 8 * :tokens), :mark, '')
  ELSE snippet(search, 1, '', '', '', :tokens) END
FROM search JOIN chunk ON chunk.id = search.rowid
WHERE search MATCH :query AND +search.rowid IN (SELECT value FROM json_each(:rowids))
"""
"""Chunks, each with its best passage as it was indexed; of very many places, the first."""
BEFORE = 80
"""Characters shown before what LIKE finds."""


class NoteChunk(NamedTuple):
    """A part of a note, as stored."""

    rowid: int
    doc_id: str
    number: int
    title: str
    passage: str
    """The stretch of the chunk in which most words of the query stand together."""

    @property
    def ref(self) -> str:
        """Name the chunk for any machine."""
        return source_ref(self.doc_id, self.number)


def put(db: sqlite3.Connection, documents: Iterable[Document], most: int) -> None:
    """Take in the chunks of ``documents``, by document id, and index them."""
    for document in sorted(documents, key=lambda document: document.doc_id):
        source_ref(document.doc_id, 0)
        db.executemany(INSERT, rows(document.doc_id, document.title, document.text, most))
    db.execute("INSERT INTO search (search) VALUES ('rebuild')")
    db.execute("INSERT INTO search (search) VALUES ('optimize')")


def rows(doc_id: str, title: str, text: str, most: int) -> Iterator[tuple[str | int | None, ...]]:
    """Yield what ``INSERT`` takes for each chunk; of plain text nothing is kept twice."""
    for number, part in enumerate(chunks(text, most)):
        read = ((one, indexed(one)) for one in (title, part))
        yield (doc_id, number, title, part, *(None if a == b else b for a, b in read))


@dataclass(frozen=True, slots=True)
class Store:
    """Open chunks."""

    db: sqlite3.Connection
    title_weight: float
    passage_tokens: int
    """Words of a passage, as FTS5's ``snippet`` counts them: at most 64."""

    def documents(self) -> int:
        """Count the notes whose chunks are all in the index."""
        searched = self.db.execute("SELECT count(*) FROM search_docsize").fetchone()[0]
        stored = self.db.execute("SELECT count(*) FROM chunk").fetchone()[0]
        notes = self.db.execute("SELECT count(DISTINCT doc_id) FROM chunk").fetchone()[0]
        return int(notes) if searched == stored else -1

    def count(self, query: str) -> int:
        """Count the chunks that a query finds."""
        asked = "SELECT count(*) FROM search WHERE search MATCH ?"
        return int(self.db.execute(asked, (query,)).fetchone()[0])

    def find(self, query: str, most: int) -> dict[int, float]:
        """Return the best chunks of a query with their BM25; ties in the order of their notes."""
        rows = self.db.execute(
            "SELECT search.rowid, -rank FROM search JOIN chunk ON chunk.id = search.rowid"
            " WHERE search MATCH ? AND rank MATCH ? ORDER BY rank, doc_id, number LIMIT ?",
            (query, f"bm25({self.title_weight}, 1.0)", most),
        )
        return {rowid: score for rowid, score in rows}  # noqa: C416  rows of a cursor

    def in_order(self, rowids: Iterable[int]) -> list[int]:
        """Sort chunks by note and number."""
        rows = self.db.execute(
            "SELECT id FROM chunk WHERE id IN (SELECT value FROM json_each(?))"
            " ORDER BY doc_id, number",
            (json.dumps(list(rowids)),),
        )
        return [row[0] for row in rows]

    def containing(self, has: Callable[[str], bool], most: int) -> list[int]:
        """Look into every chunk, by note and number, for what ``has`` looks for."""
        rows = self.db.execute("SELECT id, title, text FROM chunk ORDER BY doc_id, number")
        return list(islice((row[0] for row in rows if has(f"{row[1]}\n{row[2]}")), most))

    def lacking(self, query: str, most: int) -> list[int]:
        """Return the rowids of chunks that a query does not find, in their order."""
        rows = self.db.execute(
            "SELECT id FROM chunk WHERE id NOT IN"
            " (SELECT rowid FROM search WHERE search MATCH ?) ORDER BY doc_id, number LIMIT ?",
            (query, most),
        )
        return [row[0] for row in rows]

    def read(self, rowid: int, begin: Callable[[str], int] = lambda _: 0) -> NoteChunk:
        """Read a chunk that no query found; its passage is its text, from a little before."""
        doc_id, number, title, text = self.db.execute(
            "SELECT doc_id, number, title, text FROM chunk WHERE id = ?", (rowid,)
        ).fetchone()
        return NoteChunk(rowid, doc_id, number, title, text[max(0, begin(text) - BEFORE) :])

    def chunks(self, rowids: Iterable[int], query: str) -> dict[int, NoteChunk]:
        """Read the chunks among ``rowids`` that ``query`` found, in one pass over its matches."""
        given = {
            "many": MANY,
            "mark": MARK,
            "tokens": self.passage_tokens,
            "query": query,
            "rowids": json.dumps(list(rowids)),
        }
        rows = self.db.execute(PASSAGES, given)
        return {
            rowid: NoteChunk(rowid, doc_id, number, title, passage(text, written))
            for rowid, doc_id, number, title, text, written in rows
        }
