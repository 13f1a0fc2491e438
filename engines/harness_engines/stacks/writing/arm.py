"""Search in notes: planned FTS queries, and a local model over the best of what they find."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import ModelNotReady
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept import index as tables
from harness_engines.stacks.writing import store
from harness_engines.stacks.writing.retrieval import (
    Retriever,
    UnrankedReason,
    WritingSettings,
    scores,
)

if TYPE_CHECKING:
    from harness_engines.vector.embedder import Embedder

OWN_VERSION = "3"
"""Of how texts are read; raised when a query finds otherwise."""


@dataclass(frozen=True, slots=True)
class Writing(FileEngine["WritingSearcher"]):
    ENGINE: ClassVar = "writing"
    settings: WritingSettings

    def embedder(self) -> Embedder | None:
        """Open the model; None where it is not ready, which must not stop a search."""
        if not self.settings.rerank:
            return None
        from harness_engines.vector.embedder import embedder_of

        try:
            return embedder_of(self.settings.embedder, self.settings.max_tokens)
        except ModelNotReady:
            return None

    def version(self, made: Manifest | None = None) -> str:
        """Return what answers depend on; without its model, an index is taken as it is."""
        embedder = self.embedder()
        if made is not None and self.settings.rerank and embedder is None:
            return made.version
        words = f"notes {OWN_VERSION}, sqlite {sqlite3.sqlite_version}"
        return words + (f", {embedder.identity}" if embedder else "")

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        settings = self.settings
        with tables.built(index, store.TABLES.format(tokenize=settings.tokenize)) as db:
            store.put(db, documents, settings.chunk_characters)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[WritingSearcher]:
        """Open the notes; answers without the model asked for are not signed by the arm."""
        with tables.opened(index) as db:
            retriever = Retriever.of(db, self.settings, self.embedder())
            contract.check_count(index, made, retriever.store.documents())
            yield WritingSearcher(retriever, made)


@dataclass(frozen=True, slots=True)
class WritingSearcher:
    retriever: Retriever
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        """Show notes by their best chunk; deeper than the contract's fifty where ``k`` is."""
        found = self.retriever.find(text)
        best: dict[str, Hit] = {}
        for candidate, score in zip(found.ranked, scores(found), strict=True):
            best.setdefault(candidate.chunk.doc_id, Hit(candidate.chunk.doc_id, score, score))
        reason = found.outcome.reason
        if reason is UnrankedReason.MODEL_NOT_READY:
            degraded = replace(self.manifest, version=f"{self.manifest.version}, {reason}")
            return Answer(tuple(best.values())[:k], degraded.fingerprint, reason)
        return Answer(tuple(best.values())[:k], self.manifest.fingerprint, reason or "")

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return the planned queries, what each found, and what of a note was ranked and shown."""
        del params
        found = self.retriever.find(text)
        best: dict[str, Mapping[str, Any]] = {}
        for candidate in found.ranked:
            through = {"chunk": candidate.chunk.ref, "fts": candidate.score}
            best.setdefault(candidate.chunk.doc_id, {**through, "snippet": candidate.snippet})
        told = {
            "queries": [one.query for one in found.planned],
            "perQueryHits": list(found.per_query),
            "rerank": found.outcome.reason or f"the first {found.window}",
        }
        shown = [hit.doc_id for hit in self.search(text, k).hits]
        return Explained(told, {doc_id: best[doc_id] for doc_id in shown})


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from an arm's settings."""
    return Writing(WritingSettings.model_validate(settings))
