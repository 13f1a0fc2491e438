"""Search without an index: LIKE over the table, the end of every chain.

It needs no FTS5, so a query is still answered once that is removed (decision 13). LIKE compares
ASCII letters without case, all others with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from engines.stacks.agent_mail.contract.lifecycle import Candidate, Found
from engines.stacks.agent_mail.contract.query import Filters, RankingMode
from engines.stacks.agent_mail.sqlite.connecting import Param
from engines.stacks.agent_mail.sqlite.filters import MOST, where
from engines.stacks.agent_mail.sqlite.sanitize import extract_like_terms
from engines.stacks.agent_mail.sqlite.schema import MESSAGES
from engines.stacks.agent_mail.sqlite.store import MessageStore, search_error

BY_TIME = "m.created_ts DESC, m.id"
_CONTAINS = r"(m.subject LIKE ? ESCAPE '\' OR m.body LIKE ? ESCAPE '\')"


@dataclass(frozen=True, slots=True)
class LikeEngine:
    """Rows that contain every term, oldest id first; nothing is scored (decision 4)."""

    store: MessageStore
    table: str = MESSAGES

    @property
    def name(self) -> str:
        return "like"

    def search(self, text: str, filters: Filters, ranking: RankingMode, depth: int) -> Found:
        return contained(self.store, extract_like_terms(text), filters, ranking, depth, self.table)


def contained(  # noqa: PLR0917  a question, and of what it is asked
    store: MessageStore,
    terms: Sequence[str],
    filters: Filters,
    ranking: RankingMode,
    depth: int,
    table: str,
) -> Found:
    """List rows of ``table`` that pass and whose subject or body contains each of ``terms``.

    Raises:
        IndexUnavailable: the table is missing or broken.
        EngineError: SQLite failed.
    """
    passing = where(filters)
    sql = (
        f"SELECT m.id FROM {table} AS m WHERE "  # noqa: S608  our own text, values are bound
        + " AND ".join([*[_CONTAINS] * len(terms), passing.sql])
        + f" ORDER BY {BY_TIME if ranking is RankingMode.RECENCY else 'm.id'} LIMIT ?"
    )
    patterns = (pattern(term) for term in terms)
    params: list[Param] = [half for both in patterns for half in (both, both)]
    wanted = within(depth)
    try:
        rows = store.ask(sql, (*params, *passing.params, wanted + 1))
    except sqlite3.Error as exc:
        raise search_error(exc, f"table {table}") from exc
    return Found(
        tuple(Candidate(row[0], 0.0) for row in rows[:wanted]),
        exhausted=len(rows) <= wanted,
        method="like" if terms else "filter_only",
        normalized_query=None if terms else "",
        sql=sql,
        used_like_fallback=bool(terms),
    )


def pattern(term: str) -> str:
    """Write a term for LIKE, anywhere in a text; its own signs mean themselves."""
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def within(depth: int) -> int:
    """Hold a depth within what SQLite counts; it takes a negative LIMIT for none."""
    return max(0, min(depth, MOST - 1))
