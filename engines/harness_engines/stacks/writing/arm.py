"""Search in notes as an arm, and in a folder of notes that is kept searchable."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, ClassVar

from harness.core.engine import Answer, Engine, Explained, Hit, Manifest
from harness.core.errors import ModelNotReady
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.kept import index as tables
from harness_engines.kept.headings import headings
from harness_engines.kept.index import FileReader, utf8
from harness_engines.stacks.writing import retrieval, store
from harness_engines.stacks.writing.retrieval import WritingSettings
from harness_engines.stacks.writing.store import INSERT, TABLES, rows

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
            retriever = retrieval.Retriever.of(db, self.settings, self.embedder())
            contract.check_count(index, made, retriever.store.documents())
            yield WritingSearcher(retriever, made)


@dataclass(frozen=True, slots=True)
class WritingSearcher:
    retriever: retrieval.Retriever
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        """Show notes by their best chunk; deeper than the contract's fifty where ``k`` is."""
        found = self.retriever.find(text)
        best: dict[str, Hit] = {}
        for candidate, score in zip(found.ranked, retrieval.scores(found), strict=True):
            best.setdefault(candidate.chunk.doc_id, Hit(candidate.chunk.doc_id, score, score))
        reason, by = found.outcome.reason, self.manifest
        if reason is retrieval.UnrankedReason.MODEL_NOT_READY:
            by = replace(by, version=f"{by.version}, {reason}")
        return Answer(tuple(best.values())[:k], by.fingerprint, reason or "")

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return the planned queries, what each found, and what of a note was ranked and shown."""
        del params
        found = self.retriever.find(text)
        best: dict[str, Mapping[str, Any]] = {}
        for candidate in found.ranked:
            through = {"chunk": candidate.chunk.ref, "fts": candidate.score}
            best.setdefault(candidate.chunk.doc_id, {**through, "snippet": candidate.snippet})
        told = {
            "queries": list(found.planned),
            "perQueryHits": list(found.per_query),
            "rerank": found.outcome.reason or f"the first {len(found.outcome.order)}",
        }
        shown = [hit.doc_id for hit in self.search(text, k).hits]
        return Explained(told, {doc_id: best[doc_id] for doc_id in shown})


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from an arm's settings."""
    return Writing(WritingSettings.model_validate(settings))


SUFFIXES = frozenset({".md", ".markdown", ".txt", ".rst", ".org"})
BIGGEST = 16 << 20
VERSION = "5"
TRIGGERS = """
CREATE TRIGGER taken AFTER INSERT ON chunk BEGIN
  INSERT INTO search (rowid, title, text)
    VALUES (new.id, coalesce(new.indexed_title, new.title), coalesce(new.indexed_text, new.text));
END;
CREATE TRIGGER given_up AFTER DELETE ON chunk BEGIN
  INSERT INTO search (search, rowid, title, text)
    VALUES ('delete', old.id, coalesce(old.indexed_title, old.title),
      coalesce(old.indexed_text, old.text));
END;
"""
FIRST = 2_000
"""Characters in which a title is looked for."""


def reader(arm: Writing, root: Path, place: Path) -> FileReader:  # noqa: ARG001  all is in the index
    """Read notes; what is kept of one are its chunks, and triggers keep its words in step."""
    settings, embedder = arm.settings, arm.embedder()

    def put(db: Connection, path: str, data: bytes) -> str:
        is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        text = utf8(path, data, "utf-16" if is_wide else "utf-8-sig").replace("\0", "\ufffd")
        title, rest = title_of(path, text)
        db.executemany(INSERT, rows(path, title, rest, settings.chunk_characters))
        return ""

    return FileReader(
        suffixes=SUFFIXES,
        biggest=BIGGEST,
        identity=f"notes {VERSION} {settings.tokenize} {settings.chunk_characters}",
        tables=TABLES.format(tokenize=settings.tokenize) + TRIGGERS,
        put=put,
        drop=lambda db, path: db.execute("DELETE FROM chunk WHERE doc_id = ?", (path,)),
        opened=lambda db: retrieval.Retriever.of(db, settings, embedder, like=True),
    )


def title_of(path: str, text: str) -> tuple[str, str]:
    """Take the first heading near the top for the title, else the name of the file."""
    name = PurePosixPath(path)
    first = next(iter(headings(name.suffix.lower(), text[:FIRST])), None)
    if first is None:
        return name.stem, text
    begins = not text[: first.start].strip()
    return first.title, text[first.end :] if begins else text
