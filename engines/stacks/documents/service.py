"""A folder of documents, kept searchable, and search in it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from engines.kept.index import Live
from engines.lexical.grammar import positive
from engines.lexical.query import LIKE, Like
from engines.stacks.documents import graph, texts
from engines.stacks.documents import models as documents_models
from engines.stacks.documents.arm import Documents
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.formats import Extraction, Page, Source
from engines.stacks.documents.graph import Entities, Expansion, Graph
from engines.stacks.documents.library import Library, Settings, Times
from engines.stacks.documents.models import Loaded
from engines.stacks.documents.ranking import Pipeline, Response
from engines.stacks.documents.recall import Bm25, unbroken, words
from engines.stacks.documents.texts import Chunk, Provenance, Span, chunk_id, chunks
from harness.core.errors import HarnessError, UnknownName, missing_from

BIGGEST = 64 << 20
VERSION = "4"
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
        return texts.SUFFIXES

    @property
    def biggest(self) -> int:
        return BIGGEST

    @property
    def identity(self) -> str:
        return f"documents {VERSION} {tuple(self.settings.cutting)} {missing_from('documents')}"

    @property
    def models(self) -> str:
        there = (self.loaded.embedder, self.loaded.encoder)
        return ", ".join(model.identity for model in there if model is not None)

    @property
    def tables(self) -> str:
        return TABLES + documents_models.TABLES

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> None:
        source = texts.source(self.root / path, path, data)
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
                *(counted.total(), json.dumps(sorted(graph.named(chunk.text)))),
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


def read_kept(db: sqlite3.Connection, root: Path) -> Read:
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


TOP = 10
NEAREST = "no document contains a word of the query; these are the nearest by meaning"


class Wish(NamedTuple):
    """What is searched for, beside the query."""

    top_k: int = TOP
    document_filter: str = ""
    """Path of the only document to search; empty for all."""
    related: int = 0
    """Chunks that are related to the answer and not in it; judged to find less than ranks below."""
    explain: bool = False


@dataclass(frozen=True)
class FolderSearch:
    """Documents as they are in an open index."""

    collection: Collection
    read: Read

    def search(self, query: str, wish: Wish) -> Mapping[str, Any]:
        """Answer with the fields of section 7, and what was missing or tried last.

        Raises:
            UnknownName: the document is unknown.
            HarnessError: ``top_k`` or ``related`` is out of bounds.
        """
        document = wish.document_filter or None
        if document is not None and document not in self.collection.library.sources:
            raise UnknownName("document", document, sorted(self.collection.library.sources))
        try:
            response = self.collection.search(query, wish.top_k, document)
            nearest = fallback = False
            if query.strip() and not (response.results and self._has_a_word(query)):
                last = self._containing(query, wish.top_k, document, response)
                nearest = bool(response.results) and not last.results
                fallback = bool(last.results)
                response = response if nearest else last
            answer = response.to_json()
            if wish.related:
                answer["related"] = _related(self._expanded(response, wish.related))
        except ValueError as exc:
            raise HarnessError(f"{exc}") from exc
        if response.missing:
            answer["missing"] = [one._asdict() for one in response.missing]
        if fallback:
            answer["fallback"] = LIKE
        if nearest:
            answer["nearest"] = NEAREST
        if wish.explain:
            answer["explain"] = self._legs(query, response)
        return answer

    def _has_a_word(self, query: str) -> bool:
        """Tell whether a chunk has any word of a query, or the query only refuses some."""
        asked = positive(query)
        return not asked or bool(len(self.read.words.search(asked, 1)))

    def _containing(
        self, query: str, top_k: int, document: str | None, response: Response
    ) -> Response:
        """List chunks that contain what was typed, in the order of their ids."""
        like, allowed = Like.of(query), self.collection.allowed(document)
        chunks = self.collection.library.chunks
        rows = range(len(chunks)) if allowed is None else np.flatnonzero(allowed).tolist()
        has = (row for row in rows if like.has(unbroken(chunks[row].text)))
        found = tuple(self.collection.shown(row, 0.0) for row, _ in zip(has, range(top_k)))  # noqa: B905  the cap ends it
        return replace(response, results=found, stages_used=(LIKE,) if found else ())

    def _expanded(self, response: Response, most: int) -> Expansion:
        return replace(self.collection, graph=self._graph).expand(response, most)

    @cached_property
    def _graph(self) -> Graph:
        dense = self.collection.pipeline.models.dense
        return Graph(Entities.joined(self.read.named), dense.store.vectors if dense else None)

    def _legs(self, query: str, response: Response) -> Mapping[str, Mapping[str, Any]]:
        """Say of each chunk that is shown what every leg says of it."""
        numbers = self.collection.library.numbers
        places = [one.provenance for one in response.results]
        rows = np.array([numbers[p.document_id, p.chunk_index] for p in places], dtype=np.int64)
        legs = self.collection.pipeline.legs(query, rows)
        return {
            place.chunk_id: {name: scores[at] for name, scores in legs.items()}
            for at, place in enumerate(places)
        }


def documents(arm: Documents, root: Path, place: Path) -> Live[FolderSearch]:
    """Follow a folder of documents with the settings of an arm of this stack.

    Raises:
        HarnessError: the arm reranks token by token.
    """
    settings = arm.settings
    if settings.tier != "free":
        raise HarnessError(
            "a folder is kept for arms of the tier free;"
            " take documents-free-words, documents-free-rank, documents-free or documents-bm25"
        )
    loaded = Loaded.of(settings)

    @contextmanager
    def opened(db: sqlite3.Connection) -> Iterator[FolderSearch]:
        read = read_kept(db, root.resolve())
        texts = [chunk.text for chunk in read.library.chunks]
        models = documents_models.models(db, loaded, texts)
        has_model = models.dense is not None or models.sparse is not None
        times = {
            path: Times(when, when, when if has_model else None)
            for path, when in read.ingested.items()
        }
        pipeline = Pipeline(settings, read.words, models)
        nothing = Graph(Entities.joined([()] * len(texts)), None)
        now = Times("", "", None)
        name = root.resolve().name
        yield FolderSearch(
            Collection(name, read.library, now, pipeline, nothing, times_of=times), read
        )

    return Live(root, place, DocumentFiles(settings, root, loaded, arm.cache), opened)


def _related(expansion: Expansion) -> list[Mapping[str, Any]]:
    return [
        {
            "citation": one.provenance.cite(),
            "document_id": one.provenance.document_id,
            "chunk_id": one.provenance.chunk_id,
            "edge_weight": one.edge_weight,
            "shared": list(one.shared),
        }
        for one in expansion.chunks
    ]
