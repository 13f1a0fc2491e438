"""SQLite FTS5 with bm25 over title and text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engines import contract
from engines.contract import StackSettings, sort_by_id
from engines.lexical.terms import Clause, Occur, clause_terms, exact_clauses, indexed
from engines.ranking import by_best
from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document

FILE = "fts5.db"
ENGINE = "sqlite-fts5"


class Settings(StackSettings):
    """How FTS5 splits text, and how it weighs what it finds."""

    tokenize: Literal["unicode61", "porter unicode61"]
    title_weight: float = Field(gt=0)
    text_weight: float = Field(gt=0)
    joined: Literal["phrase", "words", "both"]
    """A joined word such as ``read_csv`` asks for the phrase, for its words, or for both."""


@dataclass(frozen=True, slots=True)
class Fts5:
    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        def fill(passing: Iterable[Document]) -> None:
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
                rows = ((d.doc_id, indexed(d.title), indexed(d.text)) for d in passing)
                db.executemany(
                    "INSERT INTO document (doc_id, title, text) VALUES (?, ?, ?)", sort_by_id(rows)
                )
                db.execute("INSERT INTO search (search) VALUES ('rebuild')")
                db.execute("INSERT INTO search (search) VALUES ('optimize')")

        return contract.record(
            index,
            documents,
            fill,
            engine=ENGINE,
            version=sqlite3.sqlite_version,
            settings=self.settings.model_dump(),
        )

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        made = contract.read(index)
        contract.check_made_by(
            index,
            made,
            engine=ENGINE,
            version=sqlite3.sqlite_version,
            settings=self.settings.model_dump(),
        )
        where = f"{(index / FILE).resolve().as_uri()}?mode=ro&immutable=1"
        try:
            db = sqlite3.connect(where, uri=True, check_same_thread=False)
        except sqlite3.Error as exc:
            raise IndexNotReady(f"{index / FILE}: {exc}. Build it again: harness index") from exc
        with closing(db):
            try:
                indexed = db.execute("SELECT count(*) FROM search_docsize").fetchone()[0]
                stored = db.execute("SELECT count(doc_id) FROM document").fetchone()[0]
                db.execute("SELECT rowid FROM search WHERE search MATCH 'a' LIMIT 1").fetchall()
            except sqlite3.Error as exc:
                raise IndexNotReady(
                    f"{index / FILE}: {exc}. Build it again: harness index"
                ) from exc
            contract.check_count(index, made, indexed)
            contract.check_count(index, made, stored)
            yield Fts5Searcher(db, made, self.settings)


@dataclass(frozen=True, slots=True)
class Fts5Searcher:
    db: sqlite3.Connection
    manifest: Manifest
    settings: Settings

    def search(self, text: str, k: int) -> Answer:
        wanted = exact_clauses(text)
        if wanted and all(clause.occur is Occur.NOT for clause in wanted):
            return self._lacking(wanted, k)
        expression = match_expression(wanted, self.settings.joined)
        if not expression:
            return Answer((), self.manifest.fingerprint, "no word to search for")
        weights = f"bm25({self.settings.title_weight}, {self.settings.text_weight})"
        rows = self.db.execute(
            "SELECT (SELECT doc_id FROM document WHERE id = search.rowid), rank FROM search"
            " WHERE search MATCH ? AND rank MATCH ? ORDER BY rank, rowid LIMIT ?",
            (expression, weights, k),
        )
        hits = by_best(((doc_id, -rank) for doc_id, rank in rows), k)
        return Answer(hits, self.manifest.fingerprint)

    def _lacking(self, refused: tuple[Clause, ...], k: int) -> Answer:
        """List what has none of the words, by id: nothing else was said of it."""
        expression = " OR ".join(filter(None, (_one(c, self.settings.joined) for c in refused)))
        if not expression:
            return Answer((), self.manifest.fingerprint, "no word to search for")
        rows = self.db.execute(
            "SELECT doc_id FROM document WHERE id NOT IN"
            " (SELECT rowid FROM search WHERE search MATCH ?) ORDER BY id LIMIT ?",
            (expression, k),
        )
        return Answer(by_best(((row[0], 0.0) for row in rows), k), self.manifest.fingerprint)


def match_expression(wanted: tuple[Clause, ...], joined: str) -> str:
    """Write clauses in FTS5's query language; empty where there are none.

    Every word stands in quotation marks, so nothing typed can be taken for syntax. What must
    match has to be written twice where something else may match, and bm25 counts it twice. So the
    latter is written twice as well, and the order is that of counting all once.
    """
    groups: Mapping[Occur, list[str]] = {
        occur: [one for c in wanted if c.occur is occur and (one := _one(c, joined))]
        for occur in Occur
    }
    should, must = groups[Occur.SHOULD], groups[Occur.MUST]
    found = " OR ".join(should)
    if must:
        every = " AND ".join(must)
        found = f"({every}) AND ({every} OR {found} OR {found})" if found else every
    if groups[Occur.NOT] and found:
        found = f"({found}) NOT ({' OR '.join(groups[Occur.NOT])})"
    return found


def _one(clause: Clause, joined: str) -> str:
    """Write a clause; empty where its words hold nothing that an index keeps."""
    whole, each = clause_terms(clause, joined)
    phrase = ['"' + " ".join(whole) + '"'] if whole else []
    if not each:
        return "".join(phrase)
    return "(" + " OR ".join([*phrase, *(f'"{term}"' for term in each)]) + ")"


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from an arm's settings."""
    return Fts5(Settings.model_validate(settings))
