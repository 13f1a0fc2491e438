"""A collection of documents: built into a folder, opened, searched, expanded."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from sqlite3 import Connection, IntegrityError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import ModelNotReady
from harness_engines.kept import cached, index
from harness_engines.kept.cached import Clock
from harness_engines.lexical.grammar import held, mask
from harness_engines.lexical.terms import Clause, holds, spelled
from harness_engines.stacks.documents import library as documents_library
from harness_engines.stacks.documents.formats import DocumentText
from harness_engines.stacks.documents.graph import ChunkGraph, Edge, Entities
from harness_engines.stacks.documents.library import DocumentSettings, Library
from harness_engines.stacks.documents.models import Loaded, MissingModel
from harness_engines.stacks.documents.ranking import RANKED, Pipeline, RankedChunks
from harness_engines.stacks.documents.recall import unbroken
from harness_engines.stacks.documents.texts import ChunkPlace, DocumentChunk

Mask = NDArray[np.bool_]
TABLES = documents_library.TABLES + cached.TABLE


def build(
    sources: Iterable[DocumentText],
    folder: Path,
    settings: DocumentSettings,
    cache: Path,
    clock: Clock = cached.now,
) -> None:
    """Cut, index and embed documents into the empty folder ``folder``."""
    loaded = Loaded.of(settings, cache)
    if loaded.missing:
        raise ModelNotReady(loaded.missing[0].why)
    with index.built(folder, TABLES) as db:
        for source in sources:
            try:
                documents_library.put(db, source, settings.cutting, clock().isoformat())
            except IntegrityError as exc:
                raise ValueError(f"two documents have the id {source.document_id!r}") from exc
        loaded.complete(db, documents_library.read(db).texts, folder, clock)


@contextmanager
def opened(folder: Path, settings: DocumentSettings, name: str) -> "Iterator[DocumentCollection]":
    """Open what ``build`` wrote with the same settings; ``name`` is shown in answers."""
    with index.opened(folder) as db:
        found = of(db, Loaded.of(settings, folder), settings, folder, name)
    yield found


def of(
    db: Connection, loaded: Loaded, settings: DocumentSettings, folder: Path, name: str
) -> "DocumentCollection":
    """Read a collection from the tables of its index, whose other files are in ``folder``."""
    library = documents_library.read(db)
    models = loaded.opened(db, library.texts, folder)
    return DocumentCollection(name, library, Pipeline(settings, library.words, models))


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """One chunk that is shown."""

    row: int
    """Position of the chunk."""
    chunk: DocumentChunk
    score: float
    """In [0, 1], higher is better; comparable only within one answer."""
    extraction: str
    around: tuple[str, str]
    """What the chunks before and after it add."""
    ingested_at: str
    """When its document was read and cut, in UTC as ISO 8601."""
    embedded_at: str | None
    """None where no model read the chunk."""

    @property
    def provenance(self) -> ChunkPlace:
        """Return where it stands."""
        return self.chunk.provenance

    def to_json(self) -> dict[str, Any]:
        """Return the fields of section 7. ``ocr_confidence`` is null: no text here was guessed."""
        place = self.provenance
        before, after = self.around
        return {
            "text": self.chunk.text,
            "score": self.score,
            "citation": place.cite(),
            "citation_short": place.cite_short(),
            "source": {
                "document": place.document,
                "document_path": place.document_path,
                "document_id": place.document_id,
                "chunk_id": place.chunk_id,
                "chunk_index": place.chunk_index,
                "page": place.page,
                "page_end": place.page_end,
                "paragraph_start": place.paragraphs.first,
                "paragraph_end": place.paragraphs.last,
                "line_start": place.lines.first,
                "line_end": place.lines.last,
                "char_start": place.char_start,
                "char_end": place.char_end,
                "extraction_method": self.extraction,
                "ocr_confidence": None,
                "chunk_created_at": self.ingested_at,
                "chunk_embedded_at": self.embedded_at,
                "document_ingested_at": self.ingested_at,
            },
            "context": {"before": before, "after": after},
        }


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one query."""

    query: str
    """As typed."""
    collection: str
    search_time_ms: int
    tier: str
    stages_used: tuple[str, ...]
    """Those that ran: a stage without its model did not."""
    results: tuple[FoundChunk, ...]
    missing: tuple[MissingModel, ...]
    """Models that were requested and are not there; not part of the JSON, which is the
    specification's."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of section 7, and no other."""
        return {
            "query": self.query,
            "collection": self.collection,
            "results_count": len(self.results),
            "search_time_ms": self.search_time_ms,
            "tier": self.tier,
            "stages_used": list(self.stages_used),
            "results": [result.to_json() for result in self.results],
        }


@dataclass(frozen=True)
class DocumentCollection:
    """An open collection."""

    name: str
    library: Library
    pipeline: Pipeline
    clock_ns: Callable[[], int] = field(default=time.perf_counter_ns)

    @cached_property
    def graph(self) -> ChunkGraph:
        """Edges between chunks, made when they are first followed."""
        dense = self.pipeline.models.dense
        return ChunkGraph(Entities.of(self.library.named), dense.vectors if dense else None)

    def search(self, query: str, top_k: int, document_filter: str | None = None) -> Response:
        """Show at most ``top_k`` chunks, and never more than the 100 that stage 2 keeps."""
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; ask for one result at least")
        began = self.clock_ns()
        ranked = self.rank(query, document_filter)
        best = zip(ranked.rows[:top_k].tolist(), ranked.scores[:top_k].tolist(), strict=True)
        results = tuple(self.shown(row, score) for row, score in best)
        return Response(
            query=query,
            collection=self.name,
            search_time_ms=round((self.clock_ns() - began) / 1e6),
            tier=self.pipeline.settings.tier,
            stages_used=ranked.stages_used,
            results=results,
            missing=self.pipeline.models.missing,
        )

    def rank(self, query: str, document_filter: str | None = None) -> RankedChunks:
        """Rank chunks; operators of the query and the filter hold for all of them."""
        allowed = self.allowed(document_filter)
        return self.pipeline.rank(query, gate(self.library, query, allowed))

    def expand(self, response: Response, most: int) -> list[Edge]:
        """Find what is related to an answer and not in it (specification 004, section 6)."""
        if not 0 <= most <= RANKED:
            raise ValueError(f"{most} expansions were requested; 0 to {RANKED} can be had")
        return self.graph.expand([result.row for result in response.results], most)

    def allowed(self, document: str | None) -> NDArray[np.bool_] | None:
        """Return which chunks are of a document, shape (chunks,); None where none is named."""
        if document is None:
            return None
        allowed = np.zeros(len(self.library.chunks), dtype=np.bool_)
        allowed[self.library.of_document.get(document, [])] = True
        return allowed

    def shown(self, row: int, score: float) -> FoundChunk:
        """Show a chunk with its place and what stands around it."""
        chunk, embedded = self.library.chunks[row], self.pipeline.models.embedded_at
        source = self.library.sources[chunk.provenance.document_id]
        return FoundChunk(
            row=row,
            chunk=chunk,
            score=score,
            extraction=source.extraction,
            around=self.library.around(chunk),
            ingested_at=self.library.ingested[source.document_id],
            embedded_at=embedded[row] if embedded else None,
        )


def gate(library: Library, query: str, allowed: Mask | None) -> Mask | None:
    """Narrow ``allowed``, shape (chunks,), by the constraints of a query."""
    demands = held(query)
    if not demands.parts:
        return allowed
    written = [spelled(unbroken(chunk.text)) for chunk in library.chunks]

    def having(clause: Clause) -> Mask:
        has = holds(clause)
        return np.fromiter((has(one) for one in written), np.bool_, len(written))

    found = mask(demands, having, np.ones(len(written), np.bool_))
    return found if allowed is None else found & allowed
