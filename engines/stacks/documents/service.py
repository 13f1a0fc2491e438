"""Search in a folder of documents: ``search_collection`` over an index that follows the folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engines.kept.live import Live
from engines.lexical.like import LIKE, Like
from engines.stacks.documents import kept, read_by
from engines.stacks.documents.arm import Documents
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.entities import Entities
from engines.stacks.documents.graph import Expansion, Graph
from engines.stacks.documents.kept import DocumentFiles, Read
from engines.stacks.documents.ranking import Pipeline
from engines.stacks.documents.read_by import Loaded
from engines.stacks.documents.response import Response
from engines.stacks.documents.tables import Times
from engines.stacks.documents.words import unbroken
from harness.core.errors import HarnessError, UnknownName

TOP = 10


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
            fallback = not response.results and bool(query.strip())
            if fallback:
                response = self._containing(query, wish.top_k, document, response)
            answer = response.to_json()
            if wish.related:
                answer["related"] = _related(self._expanded(response, wish.related))
        except ValueError as exc:
            raise HarnessError(f"{exc}") from exc
        if response.missing:
            answer["missing"] = [one._asdict() for one in response.missing]
        if fallback and response.results:
            answer["fallback"] = LIKE
        if wish.explain:
            answer["explain"] = self._legs(query, response)
        return answer

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
        read = kept.read(db, root.resolve())
        texts = [chunk.text for chunk in read.library.chunks]
        models = read_by.models(db, loaded, texts)
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
