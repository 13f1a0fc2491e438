"""SQLite FTS5 with bm25 over title and text."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from harness.core.engine import Answer, Engine, Manifest
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import FileEngine, StackSettings, sort_by_id
from harness_engines.lexical.grammar import FTS5, leaves, note_nothing, note_refusals, parse
from harness_engines.lexical.terms import FORM, Clause, Occur, clause_terms, indexed
from harness_engines.ranking import by_best

FILE = "fts5.db"


class Fts5Settings(StackSettings):
    """How FTS5 splits text, and how it weighs what it finds."""

    tokenize: Literal["unicode61", "porter unicode61"]
    title_weight: float = Field(gt=0)
    text_weight: float = Field(gt=0)
    joined: Literal["phrase", "words", "both"]
    """A joined word such as ``read_csv`` asks for the phrase, for its words, or for both."""


@dataclass(frozen=True, slots=True)
class Fts5(FileEngine["Fts5Searcher"]):
    ENGINE: ClassVar = "sqlite-fts5"
    settings: Fts5Settings

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return f"{sqlite3.sqlite_version}, {FORM}"

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        with closing(sqlite3.connect(index / FILE)) as db, db:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute(
                "CREATE TABLE document (id INTEGER PRIMARY KEY, doc_id TEXT UNIQUE NOT NULL,"
                " title TEXT NOT NULL, text TEXT NOT NULL)"
            )
            db.execute(
                "CREATE VIRTUAL TABLE search USING fts5(title, text, content='document',"
                f" content_rowid='id', tokenize='{self.settings.tokenize}')"
            )
            rows = ((d.doc_id, indexed(d.title), indexed(d.text)) for d in documents)
            db.executemany(
                "INSERT INTO document (doc_id, title, text) VALUES (?, ?, ?)", sort_by_id(rows)
            )
            db.execute("INSERT INTO search (search) VALUES ('rebuild')")
            db.execute("INSERT INTO search (search) VALUES ('optimize')")

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[Fts5Searcher]":
        where = f"{(index / FILE).resolve().as_uri()}?mode=ro&immutable=1"
        with contract.reading(index / FILE, sqlite3.Error):
            db = sqlite3.connect(where, uri=True, check_same_thread=False)
        with closing(db):
            with contract.reading(index / FILE, sqlite3.Error):
                indexed = db.execute("SELECT count(*) FROM search_docsize").fetchone()[0]
                stored = db.execute("SELECT count(doc_id) FROM document").fetchone()[0]
                db.execute("SELECT rowid FROM search WHERE search MATCH 'a' LIMIT 1").fetchall()
            contract.check_count(index, made, indexed)
            contract.check_count(index, made, stored)
            yield Fts5Searcher(db, made, self.settings)


@dataclass(frozen=True, slots=True)
class Fts5Searcher:
    db: sqlite3.Connection
    manifest: Manifest
    settings: Fts5Settings

    def search(self, text: str, k: int) -> Answer:
        tree, one = parse(text), partial(written, joined=self.settings.joined)
        expression, complement = FTS5.select(tree, one)
        if not expression:
            return Answer((), self.manifest.fingerprint, note_nothing(text))
        if complement:
            may = " OR ".join(one(c) for c in leaves(tree) if c.occur is not Occur.NOT)
            found = self._lacking(expression, may, k)
        else:
            found = self._ranked(expression, k)
        return Answer(by_best(found, k), self.manifest.fingerprint, note_refusals(text))

    def _ranked(self, expression: str, k: int, never: str = "") -> list[tuple[str, float]]:
        weights = f"bm25({self.settings.title_weight}, {self.settings.text_weight})"
        but = " AND rowid NOT IN (SELECT rowid FROM search WHERE search MATCH ?)" if never else ""
        rows = self.db.execute(
            "SELECT (SELECT doc_id FROM document WHERE id = search.rowid), rank FROM search"  # noqa: S608  no text of anybody
            f" WHERE search MATCH ? AND rank MATCH ?{but} ORDER BY rank, rowid LIMIT ?",
            (expression, weights, *([never] if never else []), k),
        )
        return [(doc_id, -rank) for doc_id, rank in rows]

    def _lacking(self, never: str, may: str, k: int) -> list[tuple[str, float]]:
        """List what has none of ``never``: what has some of ``may``, then the rest by id."""
        first = dict(self._ranked(may, k, never)) if may else {}
        rows = self.db.execute(
            "SELECT doc_id FROM document WHERE id NOT IN"
            " (SELECT rowid FROM search WHERE search MATCH ?) ORDER BY id LIMIT ?",
            (never, k),
        )
        return [*first.items(), *((row[0], 0.0) for row in rows if row[0] not in first)]


def written(clause: Clause, joined: str) -> str:
    """Write a clause; empty where its words hold nothing that an index keeps."""
    whole, each = clause_terms(clause, joined)
    phrase = ['"' + " ".join(whole) + '"' + "*" * clause.begun] if whole else []
    if not each:
        return "".join(phrase)
    return "(" + " OR ".join([*phrase, *(f'"{term}"' for term in each)]) + ")"


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from an arm's settings."""
    return Fts5(Fts5Settings.model_validate(settings))
