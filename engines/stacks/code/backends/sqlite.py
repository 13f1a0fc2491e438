"""Words of code search in SQLite FTS5: a column a field, weighed when a query is run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines.lexical.typed import Occur
from engines.stacks.code.backends.contract import OpenBackend, Scored
from engines.stacks.code.backends.wanted import Phrase, TermClause
from engines.stacks.code.catalog import Rows
from engines.stacks.code.unit import FIELDS, Texts

FILE = "words.db"


@dataclass(frozen=True, slots=True)
class SqliteBackend:
    """``bm25()`` adds a term's counts over the columns, each times its weight, before it levels."""

    name: str = "sqlite"

    @property
    def version(self) -> str:
        return f"sqlite {sqlite3.sqlite_version}"

    def build(self, folder: Path, texts: Sequence[Texts], weights: Mapping[str, int]) -> None:  # noqa: ARG002  weighed when asked
        with closing(sqlite3.connect(folder / FILE)) as db, db:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute(
                f"CREATE VIRTUAL TABLE search USING fts5({', '.join(FIELDS)}, content='',"
                " tokenize='unicode61 remove_diacritics 0')"
            )
            marks = ", ".join("?" * (len(FIELDS) + 1))
            into = f"INSERT INTO search (rowid, {', '.join(FIELDS)}) VALUES ({marks})"  # noqa: S608  our own names
            db.executemany(into, ((at, *one) for at, one in enumerate(texts)))
            db.execute("INSERT INTO search (search) VALUES ('optimize')")

    @contextmanager
    def open(self, folder: Path, weights: Mapping[str, int]) -> Iterator[OpenBackend]:
        where = f"{(folder / FILE).resolve().as_uri()}?mode=ro&immutable=1"
        try:
            db = sqlite3.connect(where, uri=True, check_same_thread=False)
        except sqlite3.Error as exc:
            raise ValueError(f"{folder / FILE}: {exc}") from exc
        with closing(db):
            try:
                units = db.execute("SELECT count(*) FROM search_docsize").fetchone()[0]
                db.execute("SELECT rowid FROM search WHERE search MATCH 'a' LIMIT 1").fetchall()
            except sqlite3.Error as exc:
                raise ValueError(f"{folder / FILE}: {exc}") from exc
            yield OpenSqlite(db, units, tuple(weights[field] for field in FIELDS))


@dataclass(frozen=True, slots=True)
class OpenSqlite:
    db: sqlite3.Connection
    units: int
    weights: tuple[int, ...]

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[Scored]:
        expression = match_expression(wanted)
        if not expression or (allowed is not None and not len(allowed)):
            return []
        weigh = f"bm25({', '.join(f'{weight}.0' for weight in self.weights)})"
        gate = "" if allowed is None else " AND rowid IN (SELECT value FROM json_each(?))"
        given = [] if allowed is None else [json.dumps(allowed.tolist())]
        rows = self.db.execute(
            f"SELECT rowid, rank FROM search WHERE search MATCH ? AND rank MATCH ?{gate}"  # noqa: S608  no text of anybody
            " ORDER BY rank, rowid LIMIT ?",
            (expression, weigh, *given, depth),
        )
        return [Scored(row, -rank) for row, rank in rows]


def match_expression(wanted: Sequence[TermClause]) -> str:
    """Write clauses in FTS5's language, every phrase quoted; empty where there are none.

    What must match is written twice where something else may match, and counts twice in bm25; so
    the latter is written twice as well.
    """
    groups = {
        occur: [
            "(" + " OR ".join(map(_quoted, one.phrases)) + ")"
            for one in wanted
            if one.occur is occur
        ]
        for occur in Occur
    }
    should, must = groups[Occur.SHOULD], groups[Occur.MUST]
    asked = " OR ".join(should)
    if must:
        every = " AND ".join(must)
        asked = f"({every}) AND ({every} OR {asked} OR {asked})" if asked else every
    if groups[Occur.NOT] and asked:
        asked = f"({asked}) NOT ({' OR '.join(groups[Occur.NOT])})"
    return asked


def _quoted(phrase: Phrase) -> str:
    return '"' + " ".join(phrase) + '"'
