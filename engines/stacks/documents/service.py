"""A folder of documents, kept searchable, and search in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engines.kept.cached import now
from engines.kept.index import Live
from engines.lexical.grammar import positive
from engines.lexical.query import LIKE, Like
from engines.stacks.documents import collection, library, texts
from engines.stacks.documents.arm import Documents
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.graph import Expansion
from engines.stacks.documents.library import Settings
from engines.stacks.documents.models import Loaded
from engines.stacks.documents.ranking import Response
from engines.stacks.documents.recall import unbroken
from harness.core.errors import HarnessError, UnknownName, missing_from

BIGGEST = 64 << 20
VERSION = "5"


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """Reads documents; what is kept of one are its pages and its chunks."""

    settings: Settings
    root: Path
    place: Path
    loaded: Loaded

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
        return self.loaded.identity

    @property
    def tables(self) -> str:
        return collection.TABLES

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> str:
        source = texts.source(self.root / path, path, data)
        library.put(db, source, self.settings.cutting, now().isoformat())
        bare = [f"{page.number}" for page in source.pages if page.number and not page.text.strip()]
        return f"no text on page {', '.join(bare)}; it cannot be found" if bare else ""

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        library.drop(db, path)

    def complete(self, db: sqlite3.Connection) -> None:
        self.loaded.complete(db, library.read(db).library.texts, self.place)


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

    def search(self, query: str, wish: Wish) -> Mapping[str, Any]:
        """Answer with the fields of section 7, and what was missing or tried last."""
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
                answer["related"] = _related(self.collection.expand(response, wish.related))
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
        """Return whether a chunk has any word of a query, or the query only refuses some."""
        asked = positive(query)
        return not asked or bool(len(self.collection.pipeline.recall.search(asked, 1)))

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

    def _legs(self, query: str, response: Response) -> Mapping[str, Mapping[str, Any]]:
        """Return what every leg says of each chunk that is shown."""
        numbers = self.collection.library.numbers
        places = [one.provenance for one in response.results]
        rows = np.array([numbers[p.document_id, p.chunk_index] for p in places], dtype=np.int64)
        legs = self.collection.pipeline.legs(query, rows)
        return {
            place.chunk_id: {name: scores[at] for name, scores in legs.items()}
            for at, place in enumerate(places)
        }


def follow(arm: Documents, root: Path, place: Path) -> Live[FolderSearch]:
    """Follow a folder of documents with the settings of an arm of this stack."""
    settings, name = arm.settings, root.resolve().name
    loaded = Loaded.of(settings, arm.cache)

    @contextmanager
    def opened(db: sqlite3.Connection) -> Iterator[FolderSearch]:
        yield FolderSearch(collection.of(db, loaded, settings, place, name))

    return Live(root, place, DocumentFiles(settings, root, place, loaded), opened)


def answer(search: FolderSearch, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer what a command or a tool was given."""
    names = ("top_k", "document_filter", "max_expansions", "explain")
    return search.search(given["query"], Wish(*(given[name] for name in names)))


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
