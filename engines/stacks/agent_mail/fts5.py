"""SQLite FTS5 with bm25 over subject, body and identifiers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from time import perf_counter

from engines.contract.mail.lifecycle import (
    Candidate,
    DocChange,
    Found,
    IndexHealth,
    IndexStats,
)
from engines.contract.mail.query import Filters, RankingMode
from engines.lexical.typed import normalise
from engines.stacks.agent_mail import schema
from engines.stacks.agent_mail.filters_sql import where
from engines.stacks.agent_mail.like import BY_TIME, contained, within
from engines.stacks.agent_mail.match import match_expression
from engines.stacks.agent_mail.sanitize import extract_like_terms, sanitize_fts_query
from engines.stacks.agent_mail.store import MessageStore, search_error

_SYNTAX = ("fts5: ", "no such column: ", "unterminated string", "unknown special query")
"""How SQLite begins to say that it cannot read what stands after MATCH."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a word counts in each column, for bm25."""

    subject: float
    body: float
    identifiers: float


@dataclass(frozen=True, slots=True)
class Fts5Engine:
    """The index beside the messages, kept by triggers.

    A query that FTS5 refuses is asked again as plain words, and then of LIKE (decision 4);
    ``note`` says so.
    """

    store: MessageStore
    weights: Weights
    compiled: Callable[[str], str] = match_expression
    """Writes what was typed for MATCH."""

    @property
    def name(self) -> str:
        return "fts5"

    def search(self, text: str, filters: Filters, ranking: RankingMode, depth: int) -> Found:
        if not normalise(text):
            return contained(self.store, (), filters, ranking, depth)
        try:
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
        found = contained(self.store, extract_like_terms(text), filters, ranking, depth)
        return replace(found, note=f"{note}; asked LIKE")

    def _match(self, asked: str, filters: Filters, ranking: RankingMode, depth: int) -> Found:
        passing = where(filters)
        order = BY_TIME if ranking is RankingMode.RECENCY else "score, m.id"
        sql = (
            "SELECT m.id, bm25(messages_fts, ?, ?, ?) AS score"  # noqa: S608  values are bound
            " FROM messages_fts CROSS JOIN messages AS m ON m.id = messages_fts.rowid"
            f" WHERE messages_fts MATCH ? AND {passing.sql} ORDER BY {order} LIMIT ?"
        )
        wanted = within(depth)
        rows = self.store.ask(sql, (*astuple(self.weights), asked, *passing.params, wanted + 1))
        return Found(
            tuple(Candidate(message_id, -score) for message_id, score in rows[:wanted]),
            exhausted=len(rows) <= wanted,
            method="fts5",
            normalized_query=asked,
            sql=sql,
        )

    def rebuild(self) -> IndexStats:
        start = perf_counter()
        with self.store.writing() as db:
            schema.drop_index(db)
            schema.create_index(db)
        return IndexStats(self.store.total_count(), 1_000 * (perf_counter() - start))

    def update_incremental(self, changes: Sequence[DocChange]) -> int:
        """Count ``changes``; the triggers applied them when they were made."""
        return len(changes)

    def remove(self) -> None:
        """Drop the index and its triggers: the last step of the migration (ADR-003, D7)."""
        with self.store.writing() as db:
            schema.drop_index(db)

    def health(self) -> IndexHealth:
        try:
            absent = schema.missing(dict(self.store.ask("SELECT name, sql FROM sqlite_master")))
            if absent:
                return IndexHealth(ready=False, documents=0, reason=f"no {', '.join(absent)}")
            indexed = self.store.ask("SELECT count(*) FROM messages_fts_docsize")[0][0]
            self.store.ask(
                "SELECT rowid FROM messages_fts WHERE messages_fts MATCH '\"a\"' LIMIT 1"
            )
        except sqlite3.Error as exc:
            return IndexHealth(ready=False, documents=0, reason=str(exc))
        kept = self.store.total_count()
        reason = "" if indexed == kept else f"{indexed} messages indexed of {kept}"
        return IndexHealth(ready=not reason, documents=indexed, reason=reason)


def _refusal(exc: sqlite3.Error) -> str:
    """Give the words with which FTS5 refused a query.

    Raises:
        IndexNotReady, EngineError: it was no refusal of the query.
    """
    code = getattr(exc, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_ERROR and str(exc).startswith(_SYNTAX):
        return str(exc)
    raise search_error(exc, "FTS5 index") from exc
