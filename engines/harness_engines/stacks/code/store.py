"""Units, their words and what models made of them, in the tables of an index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, overload

import numpy as np

from harness.core.formats import json_of
from harness.core.records import Document
from harness_engines.kept import cached
from harness_engines.kept.cached import vectors_of
from harness_engines.lexical.tantivy import Language
from harness_engines.stacks.code import ranking
from harness_engines.stacks.code.ranking import PERMUTATIONS, Signatures
from harness_engines.stacks.code.reading.documents import embedded, understand
from harness_engines.stacks.code.search import CodeVectors
from harness_engines.stacks.code.units import (
    FIELDS,
    IndexedUnit,
    Rows,
    UnitTexts,
    entry_of,
    indexed,
    words,
    written,
)
from harness_engines.stacks.code.words import ScoredUnit, TermClause, match_expression
from harness_engines.vector.embedder import Embedder

COLUMNS = ", ".join(FIELDS)
MARKS = ", ".join("?" * len(FIELDS))
TABLES = f"""
CREATE TABLE unit (id INTEGER PRIMARY KEY, path TEXT NOT NULL, doc_id TEXT UNIQUE NOT NULL,
  mode TEXT NOT NULL, symbol TEXT NOT NULL, entry TEXT NOT NULL, text TEXT NOT NULL,
  minhash BLOB NOT NULL);
CREATE INDEX unit_of_symbol ON unit (symbol);
CREATE INDEX unit_of_path ON unit (path);
CREATE TABLE outside (path TEXT NOT NULL, line INTEGER NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (path, line)) WITHOUT ROWID;
CREATE VIRTUAL TABLE search USING fts5({COLUMNS}, content='',
  tokenize='unicode61 remove_diacritics 0');
{cached.TABLE}
"""
GONE = f"INSERT INTO search (search, rowid, {COLUMNS}) VALUES ('delete', ?, {MARKS})"  # noqa: S608  our own names
TERMS = f"INSERT INTO search (rowid, {COLUMNS}) VALUES (?, {MARKS})"  # noqa: S608  as above
UNIT = "INSERT INTO unit (path, doc_id, mode, symbol, entry, text, minhash)"


def put(
    db: sqlite3.Connection, path: str, document: Document, language: Language, *, with_words: bool
) -> IndexedUnit:
    """Understand a document, and take in its unit, and its words unless another engine does."""
    unit, text = understand(document), embedded(document)
    entry = IndexedUnit(unit, UnitTexts(*(indexed(one, language) for one in unit.texts)))
    signed = ranking.row(words(text, language)[0])
    about = (path, document.doc_id, unit.mode.value, unit.facts.symbol)
    row = (*about, written(entry), text, signed.tobytes())
    made = db.execute(f"{UNIT} VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    if with_words:
        db.execute(TERMS, (made.lastrowid, *entry.terms))
    return entry


def drop(db: sqlite3.Connection, path: str) -> None:
    """Drop the units of a file, and its lines in none."""
    for rowid, entry in db.execute("SELECT id, entry FROM unit WHERE path = ?", (path,)):
        db.execute(GONE, (rowid, *entry_of(*json_of(entry)).terms))
    db.execute("DELETE FROM unit WHERE path = ?", (path,))
    db.execute("DELETE FROM outside WHERE path = ?", (path,))


class Entries(Sequence[IndexedUnit]):
    """Units of an open index by their row, read when needed."""

    def __init__(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT id, doc_id, mode FROM unit").fetchall()
        rows.sort(key=lambda row: row[1].encode())
        self._db = db
        self.ids = np.array([row[0] for row in rows], dtype=np.int64)
        """Key of each row in the tables."""
        self.doc_ids = [row[1] for row in rows]
        self.modes = [row[2] for row in rows]
        self._read = lru_cache(maxsize=4_096)(self._fetched)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> IndexedUnit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[IndexedUnit]: ...
    def __getitem__(self, at: int | slice) -> IndexedUnit | Sequence[IndexedUnit]:
        if isinstance(at, slice):
            return [self._read(int(one)) for one in self.ids[at]]
        return self._read(int(self.ids[at]))

    def text(self, row: int) -> str:
        """Return a unit's text as it stands in its file."""
        found = self._db.execute("SELECT text FROM unit WHERE id = ?", (int(self.ids[row]),))
        return str(found.fetchone()[0])

    def named(self, name: str) -> Sequence[int]:
        """List rows, ascending, that define what has a name: its own, or one with dots."""
        found = self._db.execute(
            "SELECT id FROM unit WHERE symbol IN (?, ?)", (name, name.rpartition(".")[2])
        ).fetchall()
        rows = np.flatnonzero(np.isin(self.ids, [row[0] for row in found])).tolist()
        facts = ((row, self[row].unit.facts) for row in rows)
        return [row for row, one in facts if f".{one.full or one.symbol}".endswith(f".{name}")]

    def outside(self) -> Iterator[tuple[str, int, str]]:
        """Yield the lines of code that are in no unit, such as imports, with their places."""
        yield from self._db.execute("SELECT path, line, text FROM outside ORDER BY path, line")

    def _fetched(self, rowid: int) -> IndexedUnit:
        found = self._db.execute("SELECT entry FROM unit WHERE id = ?", (rowid,)).fetchone()
        return entry_of(*json_of(found[0]))

    def whole(self) -> Sequence[IndexedUnit]:
        """Read all units at once."""
        rows = dict(self._db.execute("SELECT id, entry FROM unit"))
        return [entry_of(*json_of(rows[rowid])) for rowid in self.ids.tolist()]

    def dense(self, embedder: Embedder, cache: Path) -> CodeVectors | None:
        """Read the vectors of all units; None where one is missing."""
        texts = dict(self._db.execute("SELECT id, text FROM unit"))
        said = [texts[rowid] for rowid in self.ids.tolist()]
        made = vectors_of(embedder, cache).of(self._db, said)
        return (
            CodeVectors(embedder, cached.matrix(made.values, embedder.dimension)) if made else None
        )

    def signatures(self) -> Signatures:
        """Read the signatures of all units, shape (units, 1 + 128)."""
        held = dict(self._db.execute("SELECT id, minhash FROM unit"))
        whole = b"".join(held[rowid] for rowid in self.ids.tolist())
        return np.frombuffer(whole, dtype=np.uint32).reshape(-1, PERMUTATIONS + 1)


@dataclass(frozen=True, slots=True)
class StoredWords:
    """BM25 of SQLite: it adds a term's counts over fields, each times its weight, and levels."""

    db: sqlite3.Connection
    ids: Rows
    """Key of each row; rows are those of the entries."""
    ties: Literal["rowid", "doc_id"]
    """What orders equal scores: ids where keys were given in another order."""
    weights: Mapping[str, int]

    @property
    def units(self) -> int:
        return len(self.ids)

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[ScoredUnit]:
        expression = match_expression(wanted)
        if not expression or (allowed is not None and not len(allowed)):
            return []
        weigh = f"bm25({', '.join(f'{self.weights[field]}.0' for field in FIELDS)})"
        gate = "" if allowed is None else " AND rowid IN (SELECT value FROM json_each(?))"
        given = [] if allowed is None else [json.dumps(self.ids[allowed].tolist())]
        by_id = "(SELECT doc_id FROM unit WHERE id = search.rowid)"
        tie = by_id if self.ties == "doc_id" else "rowid"
        found = self.db.execute(
            f"SELECT rowid, -rank FROM search WHERE search MATCH ? AND rank MATCH ?{gate}"  # noqa: S608  no text of anybody
            f" ORDER BY rank, {tie} LIMIT ?",
            (expression, weigh, *given, depth),
        ).fetchall()
        order = np.argsort(self.ids)
        keys = np.array([row[0] for row in found], dtype=np.int64)
        rows = order[np.searchsorted(self.ids, keys, sorter=order)].tolist()
        return [ScoredUnit(row, score) for row, (_, score) in zip(rows, found, strict=True)]
