"""The documents stack as an arm, and over a folder of documents that is kept searchable."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any, ClassVar

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import ModelNotReady, missing_from
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept.cached import now
from harness_engines.kept.index import FileReader
from harness_engines.lexical.grammar import note_nothing, positive
from harness_engines.stacks.documents import collection, library, texts
from harness_engines.stacks.documents.collection import DocumentCollection
from harness_engines.stacks.documents.formats import of_document
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.documents.ranking import TOKENS, Loaded, RankedChunks
from harness_engines.stacks.documents.recall import words
from harness_engines.stacks.documents.texts import DocumentChunk

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
        best = [Hit(doc_id, score, score) for doc_id, (score, _) in self._best(ranked).items()]
        hits = tuple(sorted(best, key=lambda hit: (-hit.score, hit.doc_id))[:k])
        return Answer(hits, self._who(), self._note(ranked, text))

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return which stages ran, and which chunk a document stands for, with its citation."""
        del params
        ranked = self.collection.rank(text)
        best = {
            doc_id: {"chunk": chunk.cite(), "score": score}
            for doc_id, (score, chunk) in self._best(ranked).items()
        }
        shown = {hit.doc_id: best[hit.doc_id] for hit in self.search(text, k).hits}
        return Explained({"stagesUsed": list(ranked.stages_used)}, shown)

    def _best(self, ranked: RankedChunks) -> Mapping[str, tuple[float, DocumentChunk]]:
        """Return the best chunk of each document, and its score."""
        best: dict[str, tuple[float, DocumentChunk]] = {}
        for row, score in zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True):
            chunk = self.collection.library.chunks[row]
            best.setdefault(chunk.source.document_id, (score, chunk))
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
VERSION = "9"


def reader(arm: Documents, root: Path, place: Path) -> FileReader:
    """Read documents; what is kept of one are its pages and its chunks."""
    settings, loaded, name = arm.settings, Loaded.of(arm.settings, arm.cache), root.resolve().name

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
        opened=lambda db: collection.of(db, loaded, settings, place, name),
    )
