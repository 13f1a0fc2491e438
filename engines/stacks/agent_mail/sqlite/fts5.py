"""SQLite FTS5 with bm25 over subject, body and identifiers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from time import perf_counter

from engines.lexical.typed import normalise, refusals
from engines.stacks.agent_mail.contract.lifecycle import (
    CandidateList,
    Candidates,
    DocChange,
    IndexHealth,
    IndexStats,
)
from engines.stacks.agent_mail.contract.query import Filters, RankingMode
from engines.stacks.agent_mail.sqlite import schema
from engines.stacks.agent_mail.sqlite.connecting import Param
from engines.stacks.agent_mail.sqlite.filters import EVERYTHING, where
from engines.stacks.agent_mail.sqlite.like import BY_TIME, contained, within
from engines.stacks.agent_mail.sqlite.match import match_expression
from engines.stacks.agent_mail.sqlite.sanitize import (
    extract_like_terms,
    refused_terms,
    sanitize_fts_query,
)
from engines.stacks.agent_mail.sqlite.store import MessageStore, search_error

_SYNTAX = ("fts5: ", "no such column: ", "unterminated string", "unknown special query")
"""How SQLite begins to say that it cannot read what stands after MATCH."""
_ALONE = (
    "SELECT rowid, rank FROM {fts} WHERE {fts} MATCH ? AND rank MATCH ?"
    " ORDER BY rank, rowid LIMIT ?"
)
"""By ``rank`` alone FTS5 sorts all that match; with a second key SQLite keeps only the best."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a word counts in each column, for bm25."""

    subject: float
    body: float
    identifiers: float


@dataclass(frozen=True, slots=True)
class Fts5Engine:
    """The index beside the messages, or another table, kept by triggers.

    A query that FTS5 refuses is run once more as plain words, and then of LIKE (decision 4);
    ``note`` says so.
    """

    store: MessageStore
    weights: Weights
    compiled: Callable[[str], str] = match_expression
    """Writes what was typed for MATCH."""
    table: str = schema.MESSAGES

    @property
    def name(self) -> str:
        return "fts5"

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        if not normalise(text):
            return contained(self.store, ((), ()), filters, ranking, depth, self.table)
        try:
            if refusals(text):
                return self._lacking(self.compiled(text), filters, ranking, depth)
            return self._match(self.compiled(text), filters, ranking, depth)
        except sqlite3.Error as exc:
            note = f"FTS5 refused the query ({_refusal(exc)})"
        plain = sanitize_fts_query(text)
        if plain is not None:
            try:
                found = self._match(plain, filters, ranking, depth)
                return replace(found, note=f"{note}; asked for its words")
            except sqlite3.Error as exc:
                note = f"{note}; and its words ({_refusal(exc)})"
        terms = extract_like_terms(text), refused_terms(text)
        found = contained(self.store, terms, filters, ranking, depth, self.table)
        return replace(found, note=f"{note}; asked LIKE")

    def _match(
        self, asked: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        passing, recent = where(filters), ranking is RankingMode.RECENCY
        if passing == EVERYTHING and not recent:
            sql = _ALONE.format(fts=f"{self.table}_fts")
            how: tuple[Param, ...] = (asked, f"bm25({', '.join(map(str, astuple(self.weights)))})")
        else:
            sql = self._joined(passing.sql, recent=recent)
            how = (*astuple(self.weights), asked, *passing.params)
        wanted = within(depth)
        rows = self.store.ask(sql, (*how, wanted + 1))
        shown = rows[:wanted]
        return CandidateList(
            Candidates([row[0] for row in shown], [-row[1] for row in shown]),
            exhausted=len(rows) <= wanted,
            method="fts5",
            normalized_query=asked,
            sql=sql,
            best=-rows[0][2] if recent and rows else None,
        )

    def _lacking(
        self, refused: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        """List what does not match, with score 0: nothing else was said of it."""
        passing, fts, wanted = where(filters), f"{self.table}_fts", within(depth)
        order = BY_TIME if ranking is RankingMode.RECENCY else "m.id"
        sql = (
            f"SELECT m.id FROM {self.table} AS m WHERE m.id NOT IN"  # noqa: S608  values are bound
            f" (SELECT rowid FROM {fts} WHERE {fts} MATCH ?) AND {passing.sql}"
            f" ORDER BY {order} LIMIT ?"
        )
        rows = self.store.ask(sql, (refused, *passing.params, wanted + 1))
        ids = [row[0] for row in rows[:wanted]]
        exhausted = len(rows) <= wanted
        return CandidateList(
            Candidates(ids, [0.0] * len(ids)), exhausted, "fts5", f"NOT ({refused})", sql
        )

    def _joined(self, condition: str, *, recent: bool) -> str:
        """Write the statement that looks at the row of each match, which takes longer."""
        fts = f"{self.table}_fts"
        matched = (
            f"SELECT m.id, bm25({fts}, ?, ?, ?) AS score{', m.created_ts' if recent else ''}"  # noqa: S608  values are bound
            f" FROM {fts} CROSS JOIN {self.table} AS m ON m.id = {fts}.rowid"
            f" WHERE {fts} MATCH ? AND {condition}"
        )
        listed = f"SELECT m.id, score, min(score) OVER () FROM ({matched}) AS m"  # noqa: S608  values are bound
        ordered = f"{listed} ORDER BY {BY_TIME}" if recent else f"{matched} ORDER BY score, m.id"
        return f"{ordered} LIMIT ?"

    def rebuild(self) -> IndexStats:
        start = perf_counter()
        with self.store.writing() as db:
            schema.drop_index(db, self.table)
            schema.create_index(db, self.table)
        return IndexStats(self._kept(), 1_000 * (perf_counter() - start))

    def update_incremental(self, changes: Sequence[DocChange]) -> int:
        """Count ``changes``; the triggers applied them when they were made."""
        return len(changes)

    def remove(self) -> None:
        """Drop the index and its triggers: the last step of the migration (ADR-003, D7)."""
        with self.store.writing() as db:
            schema.drop_index(db, self.table)

    def health(self) -> IndexHealth:
        try:
            made = dict(self.store.ask("SELECT name, sql FROM sqlite_master"))
            absent = schema.missing(made, self.table)
            if absent:
                return IndexHealth(ready=False, documents=0, reason=f"no {', '.join(absent)}")
            fts = f"{self.table}_fts"
            indexed = self.store.ask(f"SELECT count(*) FROM {fts}_docsize")[0][0]  # noqa: S608  our own text
            self.store.ask(f"SELECT rowid FROM {fts} WHERE {fts} MATCH '\"a\"' LIMIT 1")  # noqa: S608  our own text
        except sqlite3.Error as exc:
            return IndexHealth(ready=False, documents=0, reason=str(exc))
        kept = self._kept()
        reason = "" if indexed == kept else f"{indexed} {self.table} indexed of {kept}"
        return IndexHealth(ready=not reason, documents=indexed, reason=reason)

    def _kept(self) -> int:
        return int(self.store.read(f"SELECT count(*) FROM {self.table}")[0][0])  # noqa: S608  our own text


def _refusal(exc: sqlite3.Error) -> str:
    """Give the words with which FTS5 refused a query.

    Raises:
        IndexUnavailable, EngineError: it was no refusal of the query.
    """
    code = getattr(exc, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_ERROR and str(exc).startswith(_SYNTAX):
        return str(exc)
    raise search_error(exc, "FTS5 index") from exc
