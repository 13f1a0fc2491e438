"""Code search as a stack under test: documents in, what it shows for a text and its filters out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from engines import contract
from engines.contract import FileEngine
from engines.stacks.code import ranking, units
from engines.stacks.code.ranking import Graph
from engines.stacks.code.ranking import Settings as CodeSettings
from engines.stacks.code.reading import syntax
from engines.stacks.code.reading.documents import embedded, understand
from engines.stacks.code.search import CodeSearch, Dense, Ranker
from engines.stacks.code.units import Catalog, Entry, Texts, indexed, words
from engines.stacks.code.words import Backend, SqliteBackend
from engines.stacks.code.words_tantivy import TantivyBackend
from engines.vector import amvi
from engines.vector.bulk import embed_all
from engines.vector.embedder import Embedder, embedder_of
from harness.core.engine import Answer, Engine, Explained, Hit, Manifest, Searcher
from harness.core.errors import BadFile
from harness.core.records import Document, Scalar

REVISION = 3
"""Raised with every change of code that moves a ranking."""
BACKENDS: Mapping[str, Backend] = {one.name: one for one in (SqliteBackend(), TantivyBackend())}


class Settings(CodeSettings):
    """Everything that changes an answer; each is a table or a key of the arm."""


@dataclass(frozen=True, slots=True)
class Code(FileEngine["CodeSearcher"]):
    ENGINE: ClassVar = "code"
    settings: Settings
    cache: Path

    @property
    def backend(self) -> Backend:
        """What finds words."""
        return BACKENDS[self.settings.backend]

    def embedder(self) -> Embedder | None:
        """Open the embedder that the settings name; None where they name none."""
        named = self.settings.embedder
        return embedder_of(named, self.settings.max_tokens) if named else None

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return self.version_with(self.embedder())

    def version_with(self, embedder: Embedder | None) -> str:
        """Say what answers depend on beside settings and documents."""
        vectors = embedder.identity if embedder else "no vectors"
        read_by = syntax.identity(), ranking.identity()
        return ", ".join((f"code {REVISION}", self.backend.version, vectors, *read_by))

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        embedder = self.embedder()
        in_order = sorted(documents, key=lambda document: document.doc_id.encode())
        entries = [self.entry(document) for document in in_order]
        units.write(index / units.FILE, entries)
        weights = self.settings.fields.model_dump()
        self.backend.build(index, [entry.terms for entry in entries], weights)
        texts = [embedded(document) for document in in_order]
        language = self.settings.language
        ranking.write(index, [words(text, language)[0] for text in texts])
        if embedder is not None:
            ids = [document.doc_id for document in in_order]
            amvi.write_store(index, ids, embed_all(texts, embedder, self.cache))

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[CodeSearcher]:
        with ExitStack() as until_closed:
            with contract.reading(index, OSError, ValueError, TypeError, KeyError, BadFile):
                known = units.read(index / units.FILE)
                signatures = ranking.read(index)
                opening = self.backend.open(index, self.settings.fields.model_dump())
                opened = until_closed.enter_context(opening)
            for count in (len(known), len(signatures), opened.units):
                contract.check_count(index, made, count)
            dense = self._dense(index, made, self.embedder())
            ranker = Ranker(known, opened, dense, signatures, self.settings, self.backend.name)
            yield CodeSearcher(CodeSearch(ranker, self._graph(known), self.settings), made)

    def entry(self, document: Document) -> Entry:
        """Understand a document, and take its words apart."""
        unit = understand(document)
        terms = Texts(*(indexed(text, self.settings.language) for text in unit.texts))
        return Entry(unit, terms)

    def _dense(self, index: Path, made: Manifest, embedder: Embedder | None) -> Dense | None:
        if embedder is None:
            return None
        opened = amvi.open_store(index, embedder.dimension)
        contract.check_count(index, made, len(opened.doc_ids))
        return Dense(embedder, opened.vectors)

    def _graph(self, known: Catalog) -> Graph | None:
        if self.settings.graph is None and self.settings.context is None:
            return None
        return Graph([entry.unit for entry in known.entries])


@dataclass(frozen=True, slots=True)
class CodeSearcher:
    code: CodeSearch
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show hits for a text and its filters; context is left out, since no one asked for it.

        Raises:
            InvalidFilter: a param is not a filter, or its value is invalid.
        """
        found = self.code.search(text, k, units.parse(params))
        hits = tuple(
            Hit(hit.unit.doc_id, hit.score, hit.score) for hit in found.hits if hit.beside is None
        )
        return Answer(hits, self.manifest.fingerprint)

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Give ``scoreBreakdown`` of each hit.

        Raises:
            InvalidFilter: as ``search_with``.
        """
        found = self.code.search(text, k, units.parse(params))
        shown = [hit for hit in found.hits if hit.beside is None]
        why = {hit.unit.doc_id: hit.why.as_dict() for hit in shown if hit.why}
        return Explained({"mode": self.code.settings.mode}, why)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Code(Settings.model_validate(settings), cache)


def searcher(opened: Searcher) -> CodeSearch:
    """Give what is behind an open arm of this stack, for explain, modes and context.

    Raises:
        TypeError: it is an arm of another stack.
    """
    if not isinstance(opened, CodeSearcher):
        raise TypeError(f"{type(opened).__name__} is not an open index of code search")
    return opened.code
