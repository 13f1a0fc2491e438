"""A collection of documents: built into a folder, opened, searched, expanded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.lexical.grammar import held, mask
from engines.lexical.terms import Clause, holds, spelled
from engines.stacks.documents import graph as documents_graph
from engines.stacks.documents import library as documents_library
from engines.stacks.documents import models, recall
from engines.stacks.documents.formats import Source
from engines.stacks.documents.graph import Entities, Expansion, Graph
from engines.stacks.documents.library import Library, Settings, Times
from engines.stacks.documents.ranking import RANKED, FoundChunk, Pipeline, Ranked, Response
from engines.stacks.documents.recall import unbroken

Mask = NDArray[np.bool_]


def now() -> datetime:
    """Tell the time in UTC."""
    return datetime.now(UTC)


def build(
    sources: Iterable[Source],
    folder: Path,
    settings: Settings,
    cache: Path,
    clock: Callable[[], datetime] = now,
) -> Library:
    """Cut, index and embed documents into the empty folder ``folder``.

    What models make of a text is kept below ``cache`` and not made twice.

    Raises:
        ModelNotReady: a model is absent or not the pinned one.
        ValueError: two documents have one id.
    """
    ingested = clock()
    library = Library.of(sources, settings.cutting)
    created = clock()
    texts = [chunk.text for chunk in library.chunks]
    ids = [chunk.provenance.chunk_id for chunk in library.chunks]
    recall.build(library, folder)
    Entities.of(texts).write(folder)
    models.build(settings, ids, texts, folder, cache)
    embedded = clock().isoformat() if settings.embedder or settings.sparse else None
    documents_library.write(
        folder, library, Times(ingested.isoformat(), created.isoformat(), embedded)
    )
    return library


@contextmanager
def opened(folder: Path, settings: Settings, name: str) -> Iterator[Collection]:
    """Open what ``build`` wrote with the same settings; ``name`` is shown in answers.

    A model that is missing is named in every answer, and its stage is left out.

    Raises:
        IndexNotReady: a file is missing, broken or does not fit the others.
    """
    library, times = documents_library.read(folder)
    found = models.opened(settings, len(library.chunks), folder)
    words = recall.opened(library, folder)
    vectors = found.dense.store.vectors if found.dense else None
    graph = Graph(documents_graph.Entities.open(folder, len(library.chunks)), vectors)
    yield Collection(name, library, times, Pipeline(settings, words, found), graph)


@dataclass(frozen=True, slots=True)
class Collection:
    """An open collection."""

    name: str
    library: Library
    times: Times
    pipeline: Pipeline
    graph: Graph
    clock_ns: Callable[[], int] = time.perf_counter_ns
    times_of: Mapping[str, Times] = field(default_factory=dict)
    """Times of documents that have their own."""

    def search(self, query: str, top_k: int, document_filter: str | None = None) -> Response:
        """Show at most ``top_k`` chunks, and never more than the 100 that stage 2 keeps.

        ``document_filter`` is the id of the only document to search; one that is not known has
        no hits.

        Raises:
            ValueError: ``top_k`` is below 1.
        """
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

    def rank(self, query: str, document_filter: str | None = None) -> Ranked:
        """Rank chunks; operators of the query and the filter hold for all of them."""
        allowed = self.allowed(document_filter)
        return self.pipeline.rank(query, gate(self._texts, query, allowed))

    def expand(self, response: Response, most: int) -> Expansion:
        """Find what is related to an answer and not in it (specification 004, section 6).

        At most ``most`` chunks, the strongest edges first.

        Raises:
            ValueError: ``most`` is negative or above ``RANKED``.
        """
        if not 0 <= most <= RANKED:
            raise ValueError(f"{most} expansions were requested; 0 to {RANKED} can be had")
        places = [result.provenance for result in response.results]
        rows = [self.library.numbers[p.document_id, p.chunk_index] for p in places]
        edges = self.graph.expand(rows, most)
        primary = {place.document_id for place in places}
        chunks = [self.library.chunks[edge.row].provenance for edge in edges]
        documents = dict.fromkeys(c.document_id for c in chunks if c.document_id not in primary)
        related = zip(edges, chunks, strict=True)
        return Expansion(tuple(edge.named(c) for edge, c in related), tuple(documents))

    def allowed(self, document: str | None) -> NDArray[np.bool_] | None:
        """Tell which chunks are of a document, shape (chunks,); None where none is named."""
        if document is None:
            return None
        allowed = np.zeros(len(self.library.chunks), dtype=np.bool_)
        allowed[list(self.library.of_document(document))] = True
        return allowed

    def _texts(self) -> Sequence[str]:
        return [chunk.text for chunk in self.library.chunks]

    def shown(self, row: int, score: float) -> FoundChunk:
        """Show a chunk with its place and what stands around it."""
        chunk = self.library.chunks[row]
        before, after = self.library.around(chunk)
        source = self.library.sources[chunk.provenance.document_id]
        return FoundChunk(
            text=chunk.text,
            score=score,
            provenance=chunk.provenance,
            extraction=source.extraction,
            context_before=before,
            context_after=after,
            times=self.times_of.get(source.document_id, self.times),
        )


def gate(texts: Callable[[], Sequence[str]], query: str, allowed: Mask | None) -> Mask | None:
    """Narrow ``allowed``, shape (chunks,), by the constraints of a query.

    ``None`` allows all. A query without operators gives ``allowed`` back and reads no text.
    """
    demands = held(query)
    if not demands.parts:
        return allowed
    written = [spelled(unbroken(text)) for text in texts()]

    def having(clause: Clause) -> Mask:
        has = holds(clause)
        return np.fromiter((has(one) for one in written), np.bool_, len(written))

    found = mask(demands, having, np.ones(len(written), np.bool_))
    return found if allowed is None else found & allowed
