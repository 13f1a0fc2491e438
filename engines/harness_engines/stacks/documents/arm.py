"""The documents stack as an arm: a document counts as much as its best chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import ModelNotReady
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.stacks.documents import collection, models
from harness_engines.stacks.documents.collection import DocumentCollection
from harness_engines.stacks.documents.formats import of_document
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.documents.ranking import RankedChunks

OWN_VERSION = "3"
"""Of chunking, BM25, fusion and projection; raised when one of them answers otherwise."""


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
        own = f"chunks {OWN_VERSION}, bm25 {OWN_VERSION}"
        try:
            return ", ".join(filter(None, (own, models.identity(self.settings))))
        except ModelNotReady:
            if made is None:
                raise
            return made.version

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        in_order = sorted(documents, key=lambda document: document.doc_id)
        sources = (of_document(document) for document in in_order)
        collection.build(sources, index, self.settings, self.cache)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[DocumentsSearcher]:
        with collection.opened(index, self.settings, index.name) as opened:
            contract.check_count(index, made, len(opened.library.sources))
            yield DocumentsSearcher(opened, made)


@dataclass(frozen=True, slots=True)
class DocumentsSearcher:
    collection: DocumentCollection
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        ranked = self.collection.rank(text)
        best: dict[str, float] = {}
        for row, score in zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True):
            best.setdefault(self.collection.library.chunks[row].provenance.document_id, score)
        ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:k]
        hits = tuple(Hit(doc_id, score, score) for doc_id, score in ordered)
        return Answer(hits, self._who(), self._note(ranked))

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return which stages ran, and which chunk a document stands for, with its citation."""
        del params
        ranked = self.collection.rank(text)
        best: dict[str, Mapping[str, Any]] = {}
        for row, score in zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True):
            at = self.collection.library.chunks[row].provenance
            best.setdefault(at.document_id, {"chunk": at.cite(), "score": score})
        shown = {hit.doc_id: best[hit.doc_id] for hit in self.search(text, k).hits}
        return Explained({"stagesUsed": list(ranked.stages_used)}, shown)

    def _who(self) -> str:
        """Return the arm's fingerprint only where no model of the arm was missing."""
        missing = self.collection.pipeline.models.missing
        if not missing:
            return self.manifest.fingerprint
        return of_json([self.manifest.fingerprint, [one.part for one in missing]])

    def _note(self, ranked: RankedChunks) -> str:
        said = [f"{one.part}: {one.reason}" for one in self.collection.pipeline.models.missing]
        if not len(ranked.rows):
            said.append("no word that a chunk has")
        return "; ".join(said)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; what models make is kept below ``cache``."""
    return Documents(DocumentSettings.model_validate(settings), cache)
