"""Stage 1: the chunks that share words with the query, by one of three engines."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engines.stacks.documents.bm25 import Bm25
from engines.stacks.documents.library import Library
from engines.stacks.text import fts5, tantivy
from harness.core.engine import Engine, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document

Kind = Literal["bm25", "fts5", "tantivy"]
FOLDER = "recall"


class Recall(Protocol):
    """Finds candidates."""

    def search(
        self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Positions of at most ``limit`` chunks, best first, equal ones by position.

        ``allowed``, shape (chunks,), says which may be found; None allows all.
        """
        ...


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Asks an engine that knows chunks by their ids."""

    searcher: Searcher
    rows: Mapping[str, int]

    def search(
        self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Ask for everything where a filter may hide hits: none below a cut-off is lost."""
        hits = self.searcher.search(text, limit if allowed is None else len(self.rows)).hits
        rows = np.array([self.rows[hit.doc_id] for hit in hits], dtype=np.int64)
        return rows if allowed is None else rows[allowed[rows]][:limit]


def build(kind: Kind, library: Library, folder: Path) -> None:
    """Index the chunks of a library into ``folder``."""
    made = folder / FOLDER
    made.mkdir()
    if kind == "bm25":
        Bm25.of(chunk.text for chunk in library.chunks).write(made)
    else:
        _engine(kind).build(
            (Document(c.provenance.chunk_id, "", c.text) for c in library.chunks), made
        )


@contextmanager
def opened(kind: Kind, library: Library, folder: Path) -> Iterator[Recall]:
    """Open what ``build`` wrote.

    Raises:
        IndexNotReady: it is missing, broken, or of other chunks.
    """
    if kind == "bm25":
        index = Bm25.open(folder / FOLDER)
        _check(folder, len(index.lengths), library)
        yield index
        return
    with _engine(kind).open(folder / FOLDER) as searcher:
        _check(folder, searcher.manifest.documents, library)
        rows = {chunk.provenance.chunk_id: n for n, chunk in enumerate(library.chunks)}
        yield Elsewhere(searcher, rows)


def _engine(kind: Kind) -> Engine:
    if kind == "fts5":
        return fts5.Fts5(
            fts5.Settings(tokenize="unicode61", title_weight=1.0, text_weight=1.0, joined="both")
        )
    return tantivy.Tantivy(
        tantivy.Settings(
            language="none",
            bm25_over="document",
            title_weight=1.0,
            text_weight=1.0,
            joined="both",
        )
    )


def version(kind: Kind, bm25: str) -> str:
    """Say which software recalls; ``bm25`` is the version of ours."""
    if kind == "fts5":
        return f"sqlite {sqlite3.sqlite_version}"
    return f"tantivy {package_version('tantivy')}" if kind == "tantivy" else f"bm25 {bm25}"


def _check(folder: Path, found: int, library: Library) -> None:
    if found != len(library.chunks):
        raise IndexNotReady(
            f"{folder / FOLDER}: holds {found} chunks where there are {len(library.chunks)}."
            " Build it again: harness index"
        )
