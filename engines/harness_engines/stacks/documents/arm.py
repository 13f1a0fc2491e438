"""The documents stack as an arm, and over a folder of documents that is kept searchable."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any, ClassVar

import numpy as np

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import HarnessError, ModelNotReady, UnknownName, missing_from
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept.cached import now
from harness_engines.kept.index import FileReader, LiveFolder
from harness_engines.lexical.grammar import note_nothing, positive
from harness_engines.lexical.query import LIKE, Like
from harness_engines.stacks.documents import collection, library, texts
from harness_engines.stacks.documents.collection import DocumentCollection, Response
from harness_engines.stacks.documents.formats import of_document
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.documents.models import TOKENS, Loaded
from harness_engines.stacks.documents.ranking import RankedChunks
from harness_engines.stacks.documents.recall import unbroken, words
from harness_engines.stacks.documents.texts import ChunkPlace

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
        collection.build(sources, index, self.settings, self.cache)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[DocumentsSearcher]":
        with collection.opened(index, self.settings, index.name) as opened:
            contract.check_count(index, made, len(opened.library.sources))
            yield DocumentsSearcher(opened, made)


@dataclass(frozen=True, slots=True)
class DocumentsSearcher:
    collection: DocumentCollection
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        ranked = self.collection.rank(text)
        best = {doc_id: score for doc_id, (score, _) in self._best(ranked).items()}
        ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:k]
        hits = tuple(Hit(doc_id, score, score) for doc_id, score in ordered)
        return Answer(hits, self._who(), self._note(ranked, text))

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return which stages ran, and which chunk a document stands for, with its citation."""
        del params
        ranked = self.collection.rank(text)
        best = {
            doc_id: {"chunk": place.cite(), "score": score}
            for doc_id, (score, place) in self._best(ranked).items()
        }
        shown = {hit.doc_id: best[hit.doc_id] for hit in self.search(text, k).hits}
        return Explained({"stagesUsed": list(ranked.stages_used)}, shown)

    def _best(self, ranked: RankedChunks) -> Mapping[str, tuple[float, ChunkPlace]]:
        """Return the best chunk of each document, and its score."""
        best: dict[str, tuple[float, ChunkPlace]] = {}
        for row, score in zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True):
            place = self.collection.library.chunks[row].provenance
            best.setdefault(place.document_id, (score, place))
        return best

    def _who(self) -> str:
        """Return the arm's fingerprint only where no model of the arm was missing."""
        missing = self.collection.pipeline.models.missing
        if not missing:
            return self.manifest.fingerprint
        return of_json([self.manifest.fingerprint, [one.part for one in missing]])

    def _note(self, ranked: RankedChunks, text: str) -> str:
        said = [f"{one.part}: {one.reason}" for one in self.collection.pipeline.models.missing]
        if not len(ranked.rows):
            known = words(positive(text))
            said.append(NO_CHUNK if known else note_nothing(text, has_stop_words=True))
        return "; ".join(said)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; what models make is kept below ``cache``."""
    return Documents(DocumentSettings.model_validate(settings), cache)


BIGGEST = 64 << 20
VERSION = "6"


def reader(settings: DocumentSettings, root: Path, place: Path, loaded: Loaded) -> FileReader:
    """Read documents; what is kept of one are its pages and its chunks."""

    def put(db: Connection, path: str, data: bytes) -> str:
        source = texts.source(root / path, path, data)
        library.put(db, source, settings.cutting, now().isoformat())
        bare = [f"{page.number}" for page in source.pages if page.number and not page.text.strip()]
        return f"no text on page {', '.join(bare)}; it cannot be found" if bare else ""

    return FileReader(
        suffixes=texts.SUFFIXES,
        biggest=BIGGEST,
        identity=f"documents {VERSION} {tuple(settings.cutting)} {missing_from('documents')}",
        models=", ".join([*loaded.identities, *([TOKENS] if loaded.is_late else [])]),
        tables=collection.TABLES,
        put=put,
        drop=library.drop,
        complete=lambda db: loaded.complete(db, library.read(db).texts, place),
    )


TOP = 10
NEAREST = "no document contains a word of the query; these are the nearest by meaning"


@dataclass(frozen=True)
class DocumentFolderSearch:
    """Documents as they are in an open index."""

    collection: DocumentCollection

    def search(
        self,
        query: str,
        *,
        top_k: int = TOP,
        document_filter: str = "",
        related: int = 0,
        explain: bool = False,
    ) -> Mapping[str, Any]:
        """Answer with the fields of section 7, and what was missing or tried last."""
        document = document_filter or None
        if document is not None and document not in self.collection.library.sources:
            raise UnknownName("document", document, sorted(self.collection.library.sources))
        try:
            response = self.collection.search(query, top_k, document)
            notes: dict[str, Any] = {}
            if query.strip() and not (response.results and self._has_a_word(query)):
                last = self._containing(query, top_k, document, response)
                if last.results or not response.results:
                    response = last
                    notes = {"fallback": LIKE} if last.results else {}
                else:
                    notes = {"nearest": NEAREST}
            answer = response.to_json() | notes
            if related:
                answer["related"] = self._related(response, related)
        except ValueError as exc:
            raise HarnessError(f"{exc}") from exc
        if response.missing:
            answer["missing"] = [one._asdict() for one in response.missing]
        if explain:
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
        rows = np.array([one.row for one in response.results], dtype=np.int64)
        legs = self.collection.pipeline.legs(query, rows)
        return {
            one.provenance.chunk_id: {name: scores[at] for name, scores in legs.items()}
            for at, one in enumerate(response.results)
        }

    def _related(self, response: Response, most: int) -> list[Mapping[str, Any]]:
        chunks = self.collection.library.chunks
        edges = self.collection.expand(response, most)
        places = [(edge, chunks[edge.row].provenance) for edge in edges]
        return [
            {
                "citation": place.cite(),
                "document_id": place.document_id,
                "chunk_id": place.chunk_id,
                "edge_weight": edge.weight,
                "shared": list(edge.shared),
            }
            for edge, place in places
        ]


def follow(arm: Documents, root: Path, place: Path) -> LiveFolder[DocumentFolderSearch]:
    """Follow a folder of documents with the settings of an arm of this stack."""
    settings, name = arm.settings, root.resolve().name
    loaded = Loaded.of(settings, arm.cache)

    @contextmanager
    def opened(db: Connection) -> Iterator[DocumentFolderSearch]:
        yield DocumentFolderSearch(collection.of(db, loaded, settings, place, name))

    return LiveFolder(root, place, reader(settings, root, place, loaded), opened)


def answer(search: DocumentFolderSearch, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer what a command or a tool was given."""
    named = {name: given[name] for name in ("top_k", "document_filter", "explain")}
    return search.search(given["query"], related=given["max_expansions"], **named)
