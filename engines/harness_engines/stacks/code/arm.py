"""Code search as a stack under test: documents in, what it shows for a text and its filters out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.core.engine import Answer, Engine, Explained, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept import cached
from harness_engines.kept import index as tables
from harness_engines.stacks.code import ranking, store, units, words
from harness_engines.stacks.code.ranking import CodeSettings, UnitGraph
from harness_engines.stacks.code.reading import syntax
from harness_engines.stacks.code.reading.documents import embedded
from harness_engines.stacks.code.search import CodeSearch, Ranker
from harness_engines.stacks.code.store import Entries, StoredWords
from harness_engines.stacks.code.units import Catalog
from harness_engines.stacks.code.words import OpenBackend
from harness_engines.vector.embedder import Embedder, embedder_of, identity_of_embedder

REVISION = 4
"""Raised with every change of code that moves a ranking."""


@dataclass(frozen=True, slots=True)
class Code(FileEngine["CodeSearcher"]):
    ENGINE: ClassVar = "code"
    settings: CodeSettings
    cache: Path

    def embedder(self) -> Embedder | None:
        """Open the embedder that the settings name; None where they name none."""
        named = self.settings.embedder
        return embedder_of(named, self.settings.max_tokens) if named else None

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        named = self.settings.embedder
        return self.read_by(
            identity_of_embedder(named, self.settings.max_tokens) if named else "no vectors"
        )

    def read_by(self, vectors: str) -> str:
        """Describe what answers depend on beside settings, documents and vectors."""
        by = f"sqlite {sqlite3.sqlite_version}" if self._is_in_sqlite else words.BY
        read_by = syntax.identity(), ranking.identity()
        return ", ".join((f"code {REVISION}", by, vectors, *read_by))

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        in_order = sorted(documents, key=lambda document: document.doc_id.encode())
        language, embedder = self.settings.language, self.embedder()
        with tables.built(index, store.TABLES) as db:
            terms = [
                store.put(db, "", one, language, with_words=self._is_in_sqlite).terms
                for one in in_order
            ]
            db.execute("INSERT INTO search (search) VALUES ('optimize')")
            if embedder is not None:
                texts = [embedded(document) for document in in_order]
                cached.complete(db, [cached.vectors_of(embedder, self.cache)], texts)
        if not self._is_in_sqlite:
            words.build(index, terms, self.settings.fields.model_dump())

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[CodeSearcher]:
        embedder = self.embedder()
        with tables.opened(index) as db, ExitStack() as until_closed:
            entries = Entries(db)
            known = Catalog(entries.whole(), entries.modes, entries.doc_ids)
            opened = until_closed.enter_context(self._words(index, db, entries))
            for count in (len(known), opened.units):
                contract.check_count(index, made, count)
            dense = entries.dense(embedder, self.cache) if embedder is not None else None
            if embedder is not None and dense is None:
                raise IndexNotReady(
                    f"{index}: vectors are missing. Build it again: harness stage index"
                )
            signatures, by = entries.signatures(), self.settings.backend
            ranker = Ranker(known, opened, dense, signatures, self.settings, by)
            is_flat = self.settings.graph is None and self.settings.context is None
            graph = None if is_flat else UnitGraph([entry.unit for entry in known.entries])
            yield CodeSearcher(CodeSearch(ranker, graph, self.settings), made)

    @property
    def _is_in_sqlite(self) -> bool:
        return self.settings.backend == "sqlite"

    @contextmanager
    def _words(
        self, index: Path, db: sqlite3.Connection, entries: Entries
    ) -> Iterator[OpenBackend]:
        if self._is_in_sqlite:
            weights = self.settings.fields.model_dump()
            yield StoredWords(db, entries.ids, "rowid", weights)
            return
        with ExitStack() as until_closed:
            with contract.reading(index, OSError, ValueError):
                opened = until_closed.enter_context(words.opened(index))
            yield opened


@dataclass(frozen=True, slots=True)
class CodeSearcher:
    code: CodeSearch
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show hits for a text and its filters; context is left out, since no one asked for it."""
        found = self.code.search(text, k, units.parse(params))
        hits = tuple(
            Hit(hit.unit.doc_id, hit.score, hit.score) for hit in found.hits if hit.beside is None
        )
        return Answer(hits, self.manifest.fingerprint)

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return ``scoreBreakdown`` of each hit."""
        found = self.code.search(text, k, units.parse(params))
        shown = [hit for hit in found.hits if hit.beside is None]
        why = {hit.unit.doc_id: hit.why.as_dict() for hit in shown if hit.why}
        return Explained({"mode": self.code.settings.mode}, why)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Code(CodeSettings.model_validate(settings), cache)


def searcher(opened: Searcher) -> CodeSearch:
    """Return what is behind an open arm of this stack, for explain, modes and context."""
    if not isinstance(opened, CodeSearcher):
        raise TypeError(f"{type(opened).__name__} is not an open index of code search")
    return opened.code
