"""Units, their words and what models made of them, in the tables of an index."""

import sqlite3
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from harness.core.formats import json_of
from harness.core.records import Document
from harness_engines.kept import cached
from harness_engines.kept.cached import Vectors
from harness_engines.lexical.tantivy import Language
from harness_engines.stacks.code import ranking
from harness_engines.stacks.code.ranking import PERMUTATIONS, Signatures, UnitGraph
from harness_engines.stacks.code.reading.documents import embedded, understand
from harness_engines.stacks.code.units import (
    FIELDS,
    PATTERNS,
    WHOLE,
    Chargrams,
    Filters,
    IndexedUnit,
    Mode,
    Rows,
    Unit,
    UnitTexts,
    entry_of,
    folded,
    indexed,
    passes,
    rows_by,
    values,
    words,
    written,
)
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
NOTHING: Rows = np.zeros(0, dtype=np.int64)


def put(
    db: sqlite3.Connection, path: str, document: Document, language: Language, *, with_words: bool
) -> UnitTexts:
    """Take in the unit of a document, and its words unless another engine has them; return them."""
    unit, text = understand(document), embedded(document)
    entry = IndexedUnit(unit, UnitTexts(*(indexed(one, language) for one in unit.texts)))
    signed = ranking.row(words(text, language)[0])
    about = (path, document.doc_id, unit.mode.value, unit.facts.symbol)
    row = (*about, written(entry), text, signed.tobytes())
    made = db.execute(f"{UNIT} VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    if with_words:
        db.execute(TERMS, (made.lastrowid, *entry.terms))
    return entry.terms


def drop(db: sqlite3.Connection, path: str) -> None:
    """Drop the units of a file, and its lines in none."""
    for rowid, entry in db.execute("SELECT id, entry FROM unit WHERE path = ?", (path,)):
        db.execute(GONE, (rowid, *entry_of(json_of(entry)).terms))
    db.execute("DELETE FROM unit WHERE path = ?", (path,))
    db.execute("DELETE FROM outside WHERE path = ?", (path,))


class Catalog:
    """Units of an open index in byte order of their documents' ids.

    A unit's row is its place in that order, everywhere. Units are read one by one until all of
    them are needed, for a filter or a graph.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT id, doc_id, mode FROM unit").fetchall()
        rows.sort(key=lambda row: row[1].encode())
        self._db = db
        self.ids = np.array([row[0] for row in rows], dtype=np.int64)
        """Key of each row in the tables."""
        self.doc_ids = [row[1] for row in rows]
        self._by_mode = rows_by([row[2]] for row in rows)
        self._one = lru_cache(4_096)(lambda row: entry_of(json_of(self._cell("entry", row))))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def entries(self) -> list[IndexedUnit]:
        """All units."""
        return [entry_of(json_of(entry)) for entry in self._column("entry")]

    @property
    def units(self) -> list[Unit]:
        """All units, without what is indexed of them."""
        return [entry.unit for entry in self.entries]

    def entry(self, row: int) -> IndexedUnit:
        """Read a unit."""
        return self.entries[row] if "entries" in self.__dict__ else self._one(row)

    def text(self, row: int) -> str:
        """Return a unit's text as it stands in its file."""
        return self._cell("text", row)

    @cached_property
    def graph(self) -> UnitGraph:
        """Which units belong together."""
        return UnitGraph(self.units)

    def named(self, name: str) -> list[int]:
        """List rows, ascending, that define what has a name: its own, or one with dots."""
        found = self._db.execute(
            "SELECT id FROM unit WHERE symbol IN (?, ?)", (name, name.rpartition(".")[2])
        ).fetchall()
        rows = np.flatnonzero(np.isin(self.ids, [row[0] for row in found])).tolist()
        facts = ((row, self.entry(row).unit.facts) for row in rows)
        return [row for row, one in facts if f".{one.full or one.symbol}".endswith(f".{name}")]

    def outside(self) -> Iterator[tuple[str, int, str]]:
        """Yield the lines of code that are in no unit, such as imports, with their places."""
        yield from self._db.execute("SELECT path, line, text FROM outside ORDER BY path, line")

    def dense(self, embedder: Embedder) -> Vectors | None:
        """Read the vectors of all units; None where one is missing."""
        return Vectors.read(self._db, embedder, self._column("text"))

    def signatures(self) -> Signatures:
        """Read the signatures of all units, shape (units, 1 + 128)."""
        whole = b"".join(self._column("minhash"))
        return np.frombuffer(whole, dtype=np.uint32).reshape(-1, PERMUTATIONS + 1)

    def modes(self) -> tuple[Mode, ...]:
        """Modes that have units, in the order of ``Mode``."""
        return tuple(mode for mode in Mode if mode in self._by_mode)

    def values(self, name: str) -> tuple[str, ...]:
        """List what units have of a filter that compares whole values, folded and in order."""
        return tuple(sorted(value for of, value in self._rows if of == name))

    def allowed(self, mode: Mode, filters: Filters) -> Rows | None:
        """Rows, ascending, of a mode that pass the filters; None where every unit does."""
        narrow = [] if mode is Mode.MIXED else [self._by_mode.get(mode, NOTHING)]
        if not filters:
            whole = not narrow or len(narrow[0]) == len(self)
            return None if whole else narrow[0]
        for name, value in filters.items():
            if name not in PATTERNS:
                narrow.append(self._rows.get((name, folded(value, name)), NOTHING))
            elif (found := self._grams[name].narrowed(value)) is not None:
                narrow.append(found)
        left = np.arange(len(self), dtype=np.int64)
        for rows in sorted(narrow, key=len):
            left = np.intersect1d(left, rows, assume_unique=True)
        exact = [row for row in left.tolist() if passes(self.entries[row].unit, filters)]
        return np.array(exact, dtype=np.int64)

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], Rows]:
        """Rows by what a filter compares whole."""
        return rows_by(
            [(name, value) for name in WHOLE for value in values(unit, name)] for unit in self.units
        )

    @cached_property
    def _grams(self) -> Mapping[str, Chargrams]:
        return {name: Chargrams(list(map(text, self.units))) for name, text in PATTERNS.items()}

    def _cell(self, column: str, row: int) -> str:
        found = self._db.execute(f"SELECT {column} FROM unit WHERE id = ?", (int(self.ids[row]),))  # noqa: S608  our own names
        return str(found.fetchone()[0])

    def _column(self, name: str) -> list[Any]:
        """Read a column, in the order of rows."""
        held = dict(self._db.execute(f"SELECT id, {name} FROM unit"))  # noqa: S608  as above
        return [held[rowid] for rowid in self.ids.tolist()]
