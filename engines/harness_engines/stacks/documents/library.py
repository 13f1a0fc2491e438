"""The documents and chunks of an index, as they were read and as they lie in its tables."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from sqlite3 import Connection
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from harness_engines.contract import StackSettings
from harness_engines.stacks.documents.formats import DocumentText, TextPage, joined, starts
from harness_engines.stacks.documents.graph import named as entities
from harness_engines.stacks.documents.recall import Bm25, words
from harness_engines.stacks.documents.texts import Cutting, DocumentChunk, NumberSpan, chunks


class DocumentSettings(StackSettings):
    """The specification's own choices, and those that stand beside them."""

    tier: Literal["free", "pro"]
    """``free`` recalls and ranks, ``pro`` reranks by late interaction as well."""
    embedder: str
    """E1, a model of ``harness_engines.vector.embedder``; empty for none."""
    sparse: str
    """E6, a model of ``harness_engines.sparse``; empty for none."""
    max_tokens: int = Field(ge=8, le=512)
    """How much of a chunk the models read."""
    fusion: Literal["specification", "rank"]
    """weight / (60 + 1 / score) as written, or weight / (60 + rank)."""
    recall_weight: float = Field(default=0.0, ge=0.0)
    """What the order of recall counts in a fusion by rank; the specification drops it."""
    chunk_characters: int = Field(default=2000, ge=20)
    chunk_overlap: int = Field(default=200, ge=0)
    chunk_ends: Literal["break", "anywhere"] = "break"
    """At a paragraph, a sentence or a word near its last character, or at that character."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if 2 * self.chunk_overlap >= self.chunk_characters:
            raise ValueError("chunk_overlap: must be less than half of chunk_characters")
        if self.tier == "pro" and not self.embedder:
            raise ValueError("embedder: the tier pro reranks by its tokens and needs one")
        if self.recall_weight and self.fusion != "rank":
            raise ValueError('recall_weight: counts only where fusion is "rank"')
        return self

    @property
    def cutting(self) -> Cutting:
        """Sizes of chunks."""
        return Cutting(self.chunk_characters, self.chunk_overlap, self.chunk_ends)


@dataclass(frozen=True)
class Library:
    """What can be found and cited. Chunks come in the order of their ids."""

    sources: dict[str, DocumentText]
    """By document id."""
    chunks: tuple[DocumentChunk, ...]
    words: Bm25
    named: tuple[tuple[str, ...], ...]
    """Entities of each chunk."""
    ingested: Mapping[str, str]
    """When each document was read and cut, in UTC as ISO 8601."""

    @cached_property
    def texts(self) -> Sequence[str]:
        """Texts of the chunks."""
        return [chunk.text for chunk in self.chunks]

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """Position of each chunk, by its document and its index there."""
        return {(one.source.document_id, one.index): at for at, one in enumerate(self.chunks)}

    def around(self, chunk: DocumentChunk) -> tuple[str, str]:
        """Return what the chunks before and after add to a chunk; empty where there is none."""
        start, end = ends(chunk)
        before, after = self._beside(chunk, -1), self._beside(chunk, 1)
        return (
            before.text[: max(0, start - ends(before)[0])].rstrip() if before else "",
            after.text[max(0, end - ends(after)[0]) :].lstrip() if after else "",
        )

    def _beside(self, chunk: DocumentChunk, step: int) -> DocumentChunk | None:
        number = self.numbers.get((chunk.source.document_id, chunk.index + step))
        return None if number is None else self.chunks[number]


def ends(chunk: DocumentChunk) -> tuple[int, int]:
    """Return where a chunk begins and ends in the text of its document's ``joined`` pages."""
    pages = chunk.source.pages
    begins = dict(zip((page.number for page in pages), starts(pages), strict=True))
    last = chunk.page if chunk.page_end is None else chunk.page_end
    return begins[chunk.page] + chunk.char_start, begins[last] + chunk.char_end


TABLES = """
CREATE TABLE source (path TEXT PRIMARY KEY, name TEXT NOT NULL, place TEXT NOT NULL,
  ingested_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE page (path TEXT NOT NULL, at INTEGER NOT NULL, number INTEGER, text TEXT NOT NULL,
  PRIMARY KEY (path, at));
CREATE TABLE chunk (path TEXT NOT NULL, chunk_index INTEGER NOT NULL, place TEXT NOT NULL,
  terms BLOB NOT NULL, counts BLOB NOT NULL, named TEXT NOT NULL,
  PRIMARY KEY (path, chunk_index));
CREATE TABLE word (id INTEGER PRIMARY KEY, word TEXT UNIQUE NOT NULL);
"""
NUMBERS = "SELECT word, id FROM word WHERE word IN (SELECT value FROM json_each(?))"


PLACE = ("page", "page_end", "paragraphs", "lines", "char_start", "char_end")
"""What is kept of the place of a chunk, beside its document and number."""


def put(db: Connection, source: DocumentText, cutting: Cutting, when: str) -> None:
    """Cut a document, and take in its pages, and of each chunk its place, words and entities."""
    path = source.document_id
    db.execute("INSERT INTO source VALUES (?, ?, ?, ?)", (path, source.name, source.path, when))
    pages = ((path, at, *page) for at, page in enumerate(source.pages))
    db.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", pages)
    for chunk in chunks(source, cutting):
        counted = Counter(words(chunk.text))
        new = ((word,) for word in counted)
        db.executemany("INSERT OR IGNORE INTO word (word) VALUES (?)", new)
        numbers = dict(db.execute(NUMBERS, (json.dumps(list(counted)),)).fetchall())
        row = (
            *(path, chunk.index, json.dumps([getattr(chunk, name) for name in PLACE])),
            np.array([numbers[word] for word in counted], dtype=np.int32).tobytes(),
            np.array(list(counted.values()), dtype=np.int32).tobytes(),
            json.dumps(sorted(entities(chunk.text))),
        )
        db.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?)", row)


def drop(db: Connection, path: str) -> None:
    """Delete what was made of a document."""
    for table in ("source", "page", "chunk"):
        db.execute(f"DELETE FROM {table} WHERE path = ?", (path,))  # noqa: S608  our own names


def read(db: Connection) -> Library:
    """Read what ``put`` took in, by the ids of chunks."""
    pages: dict[str, list[TextPage]] = {}
    for path, number, text in db.execute("SELECT path, number, text FROM page ORDER BY path, at"):
        pages.setdefault(path, []).append(TextPage(number, text))
    asked = "SELECT path, name, place, ingested_at FROM source ORDER BY path"
    about = db.execute(asked).fetchall()
    sources = {
        path: DocumentText(path, name, place, tuple(pages.get(path, ())))
        for path, name, place, _ in about
    }
    texts = {path: joined(source.pages) for path, source in sources.items()}
    rows = db.execute("SELECT path, chunk_index, place, terms, counts, named FROM chunk").fetchall()
    made = []
    for path, index, said, *counted in rows:
        at = dict(zip(PLACE, json.loads(said), strict=True))
        spans = {name: NumberSpan(*at[name]) for name in ("paragraphs", "lines")}
        placed = DocumentChunk(sources[path], index, "", **at | spans)
        made.append((replace(placed, text=texts[path][slice(*ends(placed))]), *counted))
    made.sort(key=lambda one: one[0].id)
    numbers = dict(db.execute("SELECT word, id FROM word").fetchall())
    return Library(
        sources,
        tuple(one[0] for one in made),
        Bm25.joined(numbers, [(terms, counts) for _, terms, counts, _ in made]),
        tuple(tuple(json.loads(one[3])) for one in made),
        {row[0]: row[3] for row in about},
    )
