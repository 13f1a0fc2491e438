"""Words of code search: the contract of its engines, queries, and SQLite FTS5."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from engines.lexical.grammar import seldom
from engines.lexical.tantivy import Language
from engines.lexical.terms import Clause, Occur
from engines.stacks.code.units import FIELDS, Rows, Texts, words

Phrase = tuple[str, ...]
BEGUN = "*"
"""At the end of a term: any term that begins so."""


@dataclass(frozen=True, slots=True)
class TermClause:
    """One clause: any of its phrases will do; a phrase of one term is that term."""

    occur: Occur
    phrases: tuple[Phrase, ...]


def wanted(clauses: Sequence[Clause], language: Language) -> tuple[TermClause, ...]:
    """Write clauses as terms; empty where they have none, or only such as must not match.

    A word of several parts such as ``read_csv`` or ``DataFrame`` asks for its parts and for its
    joined form; words in quotation marks are one phrase.
    """
    found = [one for clause in clauses if (one := _of(clause, language)).phrases]
    return tuple(found) if any(one.occur is not Occur.NOT for one in found) else ()


def terms_of(clauses: Sequence[Clause], language: Language) -> Phrase:
    """Give the terms of a query in their order, for phrases and near duplicates."""
    return tuple(
        term
        for clause in clauses
        if clause.occur is not Occur.NOT
        for word in clause.words
        for term in words(word, language)[0]
    )


def _of(clause: Clause, language: Language) -> TermClause:
    both = [words(word, language) for word in _runs(clause)]
    in_order = [term for terms, _ in both for term in terms]
    if clause.begun and in_order:
        return TermClause(clause.occur, ((in_order[-1] + BEGUN,),))
    if clause.quoted or _is_run(clause):
        return TermClause(clause.occur, (tuple(in_order),) if in_order else ())
    joined = [whole for _, wholes in both for whole in wholes]
    return TermClause(clause.occur, tuple((term,) for term in seldom([*in_order, *joined], str)))


def _is_run(clause: Clause) -> bool:
    """Tell of what must or must not match whether it may be words without spaces: a phrase."""
    return clause.occur is not Occur.SHOULD and not clause.text.isascii()


def _runs(clause: Clause) -> tuple[str, ...]:
    """Give the words of a clause, names with underscores whole."""
    return (clause.text,) if clause.text else clause.words


class Scored(NamedTuple):
    """A unit's row, and a score of which higher is better."""

    row: int
    score: float


class OpenBackend(Protocol):
    """An open index of words."""

    @property
    def units(self) -> int:
        """How many units it holds."""
        ...

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[Scored]:
        """Give the ``depth`` best of the ``allowed`` rows (None: all), ties by row.

        Scores do not depend on ``allowed``.
        """
        ...


class Backend(Protocol):
    """An engine for words; holds no open handles."""

    @property
    def name(self) -> str:
        """As explain says it."""
        ...

    @property
    def version(self) -> str:
        """The software and its version."""
        ...

    def build(self, folder: Path, texts: Sequence[Texts], weights: Mapping[str, int]) -> None:
        """Index terms, row by row, each field counted as often as it weighs."""
        ...

    def open(self, folder: Path, weights: Mapping[str, int]) -> AbstractContextManager[OpenBackend]:
        """Open what ``build`` wrote.

        Raises:
            OSError, ValueError: it is missing or broken.
        """
        ...


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
    starts = phrase[-1].endswith(BEGUN)
    return '"' + " ".join(phrase).removesuffix(BEGUN) + '"' + BEGUN * starts
