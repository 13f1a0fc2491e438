"""The documents stack: a collection that answers, as an arm and over a folder of documents."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from sqlite3 import Connection, IntegrityError
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import HarnessError, ModelNotReady, UnknownName, missing_from
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept import cached, index
from harness_engines.kept.cached import Clock
from harness_engines.kept.index import FileReader
from harness_engines.lexical.grammar import held, mask, note_nothing, positive
from harness_engines.lexical.query import LIKE, Like
from harness_engines.lexical.terms import Clause, holds, spelled
from harness_engines.stacks.documents import library, ranking, texts
from harness_engines.stacks.documents.library import (
    ChunkGraph,
    DocumentSettings,
    Library,
    unbroken,
    words,
)
from harness_engines.stacks.documents.ranking import TOKENS, Loaded, Pipeline, RankedChunks
from harness_engines.stacks.documents.texts import DocumentChunk, DocumentText, of_document

Mask = NDArray[np.bool_]
TABLES = library.TABLES + ranking.TABLES
NEAREST = "no document contains a word of the query; these are the nearest by meaning"


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
                library.put(db, source, settings.cutting, clock().isoformat())
            except IntegrityError as exc:
                raise ValueError(f"two documents have the id {source.document_id!r}") from exc
        loaded.complete(db, library.read(db).texts, folder, clock)


@contextmanager
def opened(folder: Path, settings: DocumentSettings, name: str) -> "Iterator[DocumentCollection]":
    """Open what ``build`` wrote with the same settings."""
    with index.opened(folder) as db:
        found = collection_of(db, Loaded.of(settings, folder), settings, folder, name)
    yield found


def collection_of(
    db: Connection, loaded: Loaded, settings: DocumentSettings, folder: Path, name: str
) -> "DocumentCollection":
    """Read a collection from the tables of its index, whose other files are in ``folder``."""
    held_chunks = library.read(db)
    ready = loaded.opened(db, held_chunks.texts, folder)
    return DocumentCollection(name, held_chunks, Pipeline(settings, held_chunks.words, ready))


@dataclass(frozen=True)
class DocumentCollection:
    """An open collection."""

    name: str
    """Shown in answers."""
    library: Library
    pipeline: Pipeline
    clock_ns: Callable[[], int] = field(default=time.perf_counter_ns)

    @cached_property
    def graph(self) -> ChunkGraph:
        """Edges between chunks, made when they are first followed."""
        dense = self.pipeline.models.dense
        return ChunkGraph.of(self.library.named, dense.vectors if dense else None)

    def search(self, query: str, top_k: int, document_filter: str | None = None) -> RankedChunks:
        """Show at most ``top_k`` chunks, and never more than the 100 that stage 2 keeps."""
        if top_k < 1:
            raise HarnessError(f"top_k is {top_k}; ask for one result at least")
        ranked = self.rank(query, document_filter)
        return ranked._replace(rows=ranked.rows[:top_k], scores=ranked.scores[:top_k])

    def rank(self, query: str, document_filter: str | None = None) -> RankedChunks:
        """Rank chunks; operators of the query and the filter hold for all of them."""
        allowed = self.allowed(document_filter)
        return self.pipeline.rank(query, gate(self.library, query, allowed))

    def allowed(self, document: str | None) -> Mask | None:
        """Return which chunks are of a document, shape (chunks,); None where none is named."""
        if document is None:
            return None
        of = (chunk.source.document_id == document for chunk in self.library.chunks)
        return np.fromiter(of, np.bool_, len(self.library.chunks))

    def to_json(self, query: str, found: RankedChunks, took_ms: int) -> dict[str, Any]:
        """Write the fields of section 7, and no other."""
        return {
            "query": query,
            "collection": self.name,
            "results_count": len(found.rows),
            "search_time_ms": took_ms,
            "tier": self.pipeline.settings.tier,
            "stages_used": list(found.stages_used),
            "results": list(map(self._shown, found.rows.tolist(), found.scores.tolist())),
        }

    def _shown(self, row: int, score: float) -> dict[str, Any]:
        """Show a chunk with its place and what stands around it."""
        chunk, embedded = self.library.chunks[row], self.pipeline.models.embedded_at
        source, (before, after) = chunk.source, self.library.around(chunk)
        ingested = self.library.ingested[source.document_id]
        return {
            "text": chunk.text,
            "score": score,
            "citation": chunk.cite(),
            "citation_short": chunk.cite_short(),
            "source": {
                "document": source.name,
                "document_path": source.path,
                "document_id": source.document_id,
                "chunk_id": chunk.id,
                "chunk_index": chunk.index,
                "page": chunk.page,
                "page_end": chunk.page_end,
                "paragraph_start": chunk.paragraphs.first,
                "paragraph_end": chunk.paragraphs.last,
                "line_start": chunk.lines.first,
                "line_end": chunk.lines.last,
                "char_start": chunk.char_start,
                "char_end": chunk.char_end,
                "extraction_method": "Native",  # no text is guessed from a picture
                "ocr_confidence": None,
                "chunk_created_at": ingested,
                "chunk_embedded_at": embedded[row] if embedded else None,
                "document_ingested_at": ingested,
            },
            "context": {"before": before, "after": after},
        }

    def answer(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a command or a tool: section 7, and what was missing or tried last."""
        query, top_k = given["query"], given["top_k"]
        document, sources = given["document_filter"] or None, self.library.sources
        if document is not None and document not in sources:
            raise UnknownName("document", document, sorted(sources))
        began, notes = self.clock_ns(), {}
        found = self.search(query, top_k, document)
        took_ms = round((self.clock_ns() - began) / 1e6)
        if query.strip() and not (len(found.rows) and self._has_a_word(query)):
            if last := self._containing(query, top_k, document):
                found = RankedChunks(np.array(last), np.zeros(len(last)), (LIKE,))
                notes = {"fallback": LIKE}
            elif len(found.rows):
                notes = {"nearest": NEAREST}
            else:
                found = found._replace(stages_used=())
        answer, rows = self.to_json(query, found, took_ms) | notes, found.rows.tolist()
        if given["max_expansions"]:
            answer["related"] = self._related(rows, given["max_expansions"])
        if missing := self.pipeline.models.missing:
            answer["missing"] = [one._asdict() for one in missing]
        if given["explain"]:
            legs = self.pipeline.legs(query, found.rows)
            answer["explain"] = {
                self.library.chunks[row].id: {name: scores[at] for name, scores in legs.items()}
                for at, row in enumerate(rows)
            }
        return answer

    def _has_a_word(self, query: str) -> bool:
        """Return whether a chunk has any word of a query, or the query only refuses some."""
        asked = positive(query)
        return not asked or bool(len(self.pipeline.recall.search(asked, 1)))

    def _containing(self, query: str, top_k: int, document: str | None) -> tuple[int, ...]:
        """List chunks that contain what was typed, in the order of their ids."""
        like, allowed, chunks = Like.of(query), self.allowed(document), self.library.chunks
        rows = range(len(chunks)) if allowed is None else np.flatnonzero(allowed).tolist()
        return tuple(islice((row for row in rows if like.has(unbroken(chunks[row].text))), top_k))

    def _related(self, rows: Sequence[int], most: int) -> list[Mapping[str, Any]]:
        """Show what is related to an answer and not in it (specification 004, section 6)."""
        edges = [(edge, self.library.chunks[edge.row]) for edge in self.graph.expand(rows, most)]
        return [
            {
                "citation": chunk.cite(),
                "document_id": chunk.source.document_id,
                "chunk_id": chunk.id,
                "edge_weight": edge.weight,
                "shared": list(edge.shared),
            }
            for edge, chunk in edges
        ]


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


OWN_VERSION = "3"
"""Of chunking, BM25, fusion and projection; raised when one of them answers otherwise."""

NO_CHUNK = "no word that a chunk has"


@dataclass(frozen=True, slots=True)
class Documents(FileEngine["DocumentsSearcher"]):
    ENGINE: ClassVar = "documents"
    settings: DocumentSettings
    cache: Path

    def version(self, made: Manifest | None = None) -> str:
        """Return what answers depend on beside settings and documents.

        Without its model it cannot say how it embeds, and compares no vector; so it takes the word
        of an index that was ``made``.
        """
        loaded = Loaded.of(self.settings, self.cache)
        if not loaded.missing:
            return ", ".join([f"chunks {OWN_VERSION}, bm25 {OWN_VERSION}", *loaded.identities])
        if made is None:
            raise ModelNotReady(loaded.missing[0].why)
        return made.version

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        in_order = sorted(documents, key=lambda document: document.doc_id)
        sources = (of_document(document) for document in in_order)
        build(sources, index, self.settings, self.cache)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[DocumentsSearcher]":
        with opened(index, self.settings, index.name) as collection:
            contract.check_count(index, made, len(collection.library.sources))
            yield DocumentsSearcher(collection, made)


@dataclass(frozen=True, slots=True)
class DocumentsSearcher:
    collection: DocumentCollection
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        """Show documents by their best chunk; without one of its models, not signed by the arm."""
        ranked, missing = self.collection.rank(text), self.collection.pipeline.models.missing
        best = self._best(ranked, k).items()
        hits = tuple(Hit(doc_id, score, score) for doc_id, (score, _) in best)
        who, said = self.manifest.fingerprint, [f"{one.part}: {one.reason}" for one in missing]
        if not len(ranked.rows):
            known = words(positive(text))
            said.append(NO_CHUNK if known else note_nothing(text, has_stop_words=True))
        if missing:
            who = of_json([who, [one.part for one in missing]])
        return Answer(hits, who, "; ".join(said))

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return which stages ran, and which chunk a document stands for, with its citation."""
        del params
        ranked = self.collection.rank(text)
        shown = {
            doc_id: {"chunk": chunk.cite(), "score": score}
            for doc_id, (score, chunk) in self._best(ranked, k).items()
        }
        return Explained({"stagesUsed": list(ranked.stages_used)}, shown)

    def _best(self, ranked: RankedChunks, k: int) -> Mapping[str, tuple[float, DocumentChunk]]:
        """Return the best documents with the score of their best chunk, equal ones by id."""
        best: dict[str, tuple[float, DocumentChunk]] = {}
        for row, score in zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True):
            chunk = self.collection.library.chunks[row]
            best.setdefault(chunk.source.document_id, (score, chunk))
        return dict(sorted(best.items(), key=lambda one: (-one[1][0], one[0]))[:k])


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; what models make is kept below ``cache``."""
    return Documents(DocumentSettings.model_validate(settings), cache)


BIGGEST = 64 << 20
VERSION = "9"


def reader(arm: Documents, root: Path, place: Path) -> FileReader:
    """Read documents; what is kept of one are its pages and its chunks."""
    settings, loaded, name = arm.settings, Loaded.of(arm.settings, arm.cache), root.resolve().name

    def put(db: Connection, path: str, data: bytes) -> str:
        source = texts.source(root / path, path, data)
        library.put(db, source, settings.cutting, cached.now().isoformat())
        return "; ".join(source.notes)

    return FileReader(
        suffixes=texts.SUFFIXES,
        biggest=BIGGEST,
        identity=f"documents {VERSION} {tuple(settings.cutting)} {missing_from('documents')}",
        models=", ".join([*loaded.identities, *([TOKENS] if loaded.is_late else [])]),
        tables=TABLES,
        put=put,
        drop=library.drop,
        complete=lambda db: loaded.complete(db, library.read(db).texts, place),
        opened=lambda db: collection_of(db, loaded, settings, place, name),
    )
