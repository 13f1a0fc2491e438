"""A folder of code, kept searchable: units and their words in SQLite, file by file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import overload

import numpy as np

from engines.kept import vectors
from engines.lexical.typed import Occur
from engines.stacks.code import near_duplicates
from engines.stacks.code.arm import Code
from engines.stacks.code.backends.contract import Scored
from engines.stacks.code.backends.sqlite import match_expression
from engines.stacks.code.backends.wanted import TermClause
from engines.stacks.code.catalog import Entry, Rows, entry_of, written
from engines.stacks.code.reading.packages import BIGGEST, READ, module_of, of_file
from engines.stacks.code.reading.understand import embedded
from engines.stacks.code.terms import words
from engines.stacks.code.unit import FIELDS
from engines.vector.embedder import Embedder
from harness.core.errors import BadFile
from harness.core.formats import json_of
from harness.core.reading import Malformed

VERSION = "2"
PACKAGE = "__init__.py"
COLUMNS = ", ".join(FIELDS)
MARKS = ", ".join("?" * len(FIELDS))
TABLES = f"""
CREATE TABLE unit (id INTEGER PRIMARY KEY, path TEXT NOT NULL, doc_id TEXT UNIQUE NOT NULL,
  mode TEXT NOT NULL, entry TEXT NOT NULL, text TEXT NOT NULL, minhash BLOB NOT NULL);
CREATE INDEX unit_of_path ON unit (path);
CREATE VIRTUAL TABLE search USING fts5({COLUMNS}, content='',
  tokenize='unicode61 remove_diacritics 0');
"""


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """Reads files of code, prose and records; what is kept of one are its units."""

    arm: Code
    root: Path
    embedder: Embedder | None

    @property
    def suffixes(self) -> frozenset[str]:
        return frozenset(f".{ext}" for ext in READ)

    @property
    def biggest(self) -> int:
        return BIGGEST

    @property
    def identity(self) -> str:
        return f"code {VERSION} {self.arm.version(None)} {self.arm.settings.language}"

    @property
    def models(self) -> str:
        return self.embedder.identity if self.embedder else ""

    @property
    def tables(self) -> str:
        return TABLES + vectors.TABLE

    def put(self, db: sqlite3.Connection, path: str, data: bytes) -> None:
        try:
            found = list(of_file(path, self._module(path), data))
        except Malformed as exc:
            what, _, hint = str(exc).partition(". ")
            raise BadFile(path, what, hint or "Save it as UTF-8") from exc
        for document in found:
            entry = self.arm.entry(document)
            text = embedded(document)
            signed = near_duplicates.row(words(text, self.arm.settings.language)[0])
            row = (path, document.doc_id, entry.unit.mode.value, written(entry), text)
            into = "INSERT INTO unit (path, doc_id, mode, entry, text, minhash)"
            made = db.execute(f"{into} VALUES (?, ?, ?, ?, ?, ?)", (*row, signed.tobytes()))
            terms = f"INSERT INTO search (rowid, {COLUMNS}) VALUES (?, {MARKS})"  # noqa: S608  as above
            db.execute(terms, (made.lastrowid, *entry.terms))

    def drop(self, db: sqlite3.Connection, path: str) -> None:
        gone = f"INSERT INTO search (search, rowid, {COLUMNS}) VALUES ('delete', ?, {MARKS})"  # noqa: S608  as above
        for rowid, entry in db.execute("SELECT id, entry FROM unit WHERE path = ?", (path,)):
            db.execute(gone, (rowid, *entry_of(*json_of(entry)).terms))
        db.execute("DELETE FROM unit WHERE path = ?", (path,))

    def complete(self, db: sqlite3.Connection) -> None:
        if self.embedder is not None:
            texts = [row[0] for row in db.execute("SELECT text FROM unit")]
            vectors.complete(db, self.embedder, texts, self.arm.cache)

    def _module(self, path: str) -> str:
        """Name a module as it is imported: from the topmost folder that is a package."""
        name = module_of(f"/{path}").removeprefix(".")
        folders = PurePosixPath(path).parent.parts
        above = self._packages_above()
        outside = [at for at in range(len(folders)) if not self._is_package(folders[: at + 1])]
        if outside:
            return ".".join(name.split(".")[outside[-1] + 1 :])
        return ".".join([*above, name]) if folders or above else name

    def _is_package(self, folders: Sequence[str]) -> bool:
        return self.root.joinpath(*folders, PACKAGE).is_file()

    def _packages_above(self) -> tuple[str, ...]:
        """Name the packages that the folder itself is in, from the topmost."""
        found: list[str] = []
        folder = self.root.resolve()
        while (folder / PACKAGE).is_file():
            found.insert(0, folder.name)
            folder = folder.parent
        return tuple(found)


class Entries(Sequence[Entry]):
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
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(at, slice):
            return [self._read(int(one)) for one in self.ids[at]]
        return self._read(int(self.ids[at]))

    def text(self, row: int) -> str:
        """Give a unit's text as it stands in its file."""
        found = self._db.execute("SELECT text FROM unit WHERE id = ?", (int(self.ids[row]),))
        return str(found.fetchone()[0])

    def _fetched(self, rowid: int) -> Entry:
        found = self._db.execute("SELECT entry FROM unit WHERE id = ?", (rowid,)).fetchone()
        return entry_of(*json_of(found[0]))


@dataclass(frozen=True, slots=True)
class KeptWords:
    """Words of an open index; rows are those of its entries."""

    db: sqlite3.Connection
    ids: Rows
    weights: tuple[int, ...]

    @property
    def units(self) -> int:
        return len(self.ids)

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[Scored]:
        """Rank by BM25, ties by row, which does not depend on when a file was taken in."""
        if all(one.occur is Occur.NOT for one in wanted):
            return []
        weigh = f"bm25({', '.join(f'{weight}.0' for weight in self.weights)})"
        found = self.db.execute(
            "SELECT rowid, -rank FROM search WHERE search MATCH ? AND rank MATCH ?",
            (match_expression(wanted), weigh),
        ).fetchall()
        if not found:
            return []
        order = np.argsort(self.ids)
        keys = np.array([row[0] for row in found], dtype=np.int64)
        scores = np.array([row[1] for row in found])
        rows = order[np.searchsorted(self.ids, keys, sorter=order)]
        if allowed is not None:
            kept = np.isin(rows, allowed)
            rows, scores = rows[kept], scores[kept]
        best = np.lexsort((rows, -scores))[:depth]
        return [Scored(int(rows[at]), float(scores[at])) for at in best]
