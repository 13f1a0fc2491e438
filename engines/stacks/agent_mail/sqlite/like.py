"""Search without an index: LIKE over the table, the end of every chain.

It needs no FTS5, so a query is still answered once that is removed (decision 13). LIKE compares
ASCII letters without case, all others with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from engines.stacks.agent_mail.contract.lifecycle import Candidate, CandidateList
from engines.stacks.agent_mail.contract.query import Filters, RankingMode
from engines.stacks.agent_mail.sqlite.connecting import Param
from engines.stacks.agent_mail.sqlite.filters import MOST, where
from engines.stacks.agent_mail.sqlite.sanitize import extract_like_terms, refused_terms
from engines.stacks.agent_mail.sqlite.schema import MESSAGES
from engines.stacks.agent_mail.sqlite.store import MessageStore, search_error

BY_TIME = "m.created_ts DESC, m.id"
_CONTAINS = r"(m.subject LIKE ? ESCAPE '\' OR m.body LIKE ? ESCAPE '\')"


@dataclass(frozen=True, slots=True)
class LikeEngine:
    """Rows that contain every term and none refused, oldest id first; nothing is scored."""

    store: MessageStore
    table: str = MESSAGES

    @property
    def name(self) -> str:
        return "like"

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        terms = extract_like_terms(text), refused_terms(text)
        return contained(self.store, terms, filters, ranking, depth, self.table)


def contained(  # noqa: PLR0917  a question, and of what it is asked
    store: MessageStore,
    terms: tuple[Sequence[str], Sequence[str]],
    filters: Filters,
    ranking: RankingMode,
    depth: int,
    table: str,
) -> CandidateList:
    """List rows of ``table`` that pass, with each of the first ``terms`` and none of the others.

    A term is in the subject or in the body.

    Raises:
        IndexUnavailable: the table is missing or broken.
        EngineError: SQLite failed.
    """
    passing = where(filters)
    wanted, refused = terms
    sql = (
        f"SELECT m.id FROM {table} AS m WHERE "  # noqa: S608  our own text, values are bound
        + " AND ".join([
            *[_CONTAINS] * len(wanted),
            *[f"NOT {_CONTAINS}"] * len(refused),
            passing.sql,
        ])
        + f" ORDER BY {BY_TIME if ranking is RankingMode.RECENCY else 'm.id'} LIMIT ?"
    )
    patterns = (pattern(term) for term in (*wanted, *refused))
    said = bool(wanted or refused)
    params: list[Param] = [half for both in patterns for half in (both, both)]
    most = within(depth)
    try:
        rows = store.ask(sql, (*params, *passing.params, most + 1))
    except sqlite3.Error as exc:
        raise search_error(exc, f"table {table}") from exc
    return CandidateList(
        tuple(Candidate(row[0], 0.0) for row in rows[:most]),
        exhausted=len(rows) <= most,
        method="like" if said else "filter_only",
        normalized_query=None if said else "",
        sql=sql,
        used_like_fallback=said,
    )


def pattern(term: str) -> str:
    """Write a term for LIKE, anywhere in a text; its own signs mean themselves."""
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def within(depth: int) -> int:
    """Hold a depth within what SQLite counts; it takes a negative LIMIT for none."""
    return max(0, min(depth, MOST - 1))
