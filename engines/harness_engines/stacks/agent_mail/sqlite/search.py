"""Search in SQLite: FTS5 with bm25, LIKE, and filters."""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness_engines.lexical.grammar import FTS5, Selected, exact_clauses, parse, refuses
from harness_engines.lexical.terms import Clause, Occur, clause_terms, coded, normalise, terms
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import CandidateList, Filters, RankingMode
from harness_engines.stacks.agent_mail.sqlite.schema import MESSAGES, whole
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, Param, search_error

_HOLDS: Mapping[str, str] = {
    # One value: a product may have more projects than a statement may have placeholders.
    "project_id": "m.project_id IN (SELECT value FROM json_each(?))",
    "importance": "m.importance IN ({many})",
    "ack_required": "m.ack_required = ?",
    "thread_id": "m.thread_id = ?",
    "sender_name": "m.sender_id IN (SELECT id FROM agents WHERE name = ?)",
    "recipients": (
        "m.id IN (SELECT r.message_id FROM recipients AS r"
        " JOIN agents AS a ON a.id = r.agent_id WHERE a.name = ?)"
    ),
}
"""The condition that a column holds one of some values."""


class Where(NamedTuple):
    """A condition, without the word WHERE, and the values of its placeholders."""

    sql: str
    params: tuple[Param, ...]


EVERYTHING = Where("1", ())


def where(filters: Filters) -> Where:
    """AND all that is requested; ``EVERYTHING`` where nothing is."""
    parts: list[str] = []
    params: list[Param] = []
    for columns, values in contract.conditions(filters):
        held = [json.dumps(values)] if columns == ("project_id",) else [*map(_bound, values)]
        any_of = [_HOLDS[one].format(many=", ".join("?" * len(held))) for one in columns]
        parts.append(any_of[0] if len(any_of) == 1 else f"({' OR '.join(any_of)})")
        params += held * len(any_of)
    for sign, bound in zip((">=", "<="), astuple(filters.time_range), strict=True):
        if bound is not None:
            parts.append(f"m.created_ts {sign} ?")
            params.append(max(contract.LEAST, min(contract.MOST, bound)))
    return Where(" AND ".join(parts), tuple(params)) if parts else EVERYTHING


def _bound(value: str | int) -> Param:
    """Return a name as text, or as bytes, which equal no text, where SQLite holds no such text."""
    if isinstance(value, int):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
    return value


def match_expression(text: str) -> Selected:
    """Write ``text`` for MATCH; the expression is empty where it is blank.

    A joined word is its phrase in any column, or the whole token in ``identifiers``; a single word
    is searched in that column with the others. A word with a star at its end is a prefix. Text
    without a letter or digit is searched as it is, so that FTS5 and nothing before it says that it
    matches nothing.
    """
    typed = normalise(text)
    found = FTS5.select(parse(typed), _one)
    return found if found.expression or not typed else Selected(quoted(typed))


def quoted(text: str) -> str:
    """Write ``text`` as an FTS5 string: a phrase of the tokens in it."""
    return '"' + text.replace('"', '""') + '"'


def prefix(word: str) -> str:
    """Write ``word*`` as FTS5 wants it, with the star outside the marks."""
    return "{subject body} : " + quoted(word.rstrip("*")) + "*"


def _one(clause: Clause) -> str:
    """Write a clause; empty where nothing of it could be indexed."""
    if clause.text.isascii() and clause.text.isalnum():
        return quoted(clause.text)
    tokens = () if clause.quoted else dict.fromkeys(contract.names(clause.text))
    whole_names = [f"identifiers : {quoted(whole([token]))}" for token in tokens]
    if clause.sign_name and clause.occur is not Occur.SHOULD:
        return whole_names[0]
    if clause.begun and (parts := terms(clause.words[0])):
        every = [*map(quoted, parts[:-1]), prefix(parts[-1])]
        return every[0] if len(every) == 1 else f"({' AND '.join(every)})"
    said = clause_terms(clause, "phrase", signs=False)
    phrase = clause.text if clause.text.isascii() else " ".join(said.whole)
    found = [quoted(one) for one in (phrase, *said.each) if any(map(str.isalnum, one))]
    if found and (len(clause.words) > 1 or clause.sign_name):
        found += whole_names
    return found[0] if len(found) == 1 else f"({' OR '.join(found)})" if found else ""


OPERATORS = frozenset({"AND", "OR", "NOT", "NEAR"})
MOST_TERMS = 5
MOST_REFUSED = 20
LONGEST_TERM = 256
"""Characters; SQLite refuses a LIKE pattern of more than 50,000 bytes."""

_TOKEN = re.compile(r"[^\W_]+(?:[-_./]+[^\W_]+)*")
_STARRED = re.compile(_TOKEN.pattern + r"\*?")


def sanitize_fts_query(text: str) -> str | None:
    """Reduce ``text`` to quoted words joined by OR, which FTS5 refuses for no text; or None."""
    found = [word for c in _wanted(text) for word in _STARRED.findall(coded(c.text))]
    kept = [word for word in found if word.rstrip("*").upper() not in OPERATORS]
    asked = (
        prefix(word) if word.endswith("*") and word[:-1].isalnum() else quoted(word.rstrip("*"))
        for word in dict.fromkeys(kept)
    )
    return " OR ".join(asked) or None


def extract_like_terms(text: str) -> tuple[str, ...]:
    """Choose at most five terms of ``text``: phrases, joined words and words, then any piece."""
    found: list[str] = []
    if refuses(text):
        return ()
    for clause in _wanted(text):
        found += [clause.text.strip()] if clause.quoted else _TOKEN.findall(clause.text)
    telling = [
        term
        for term in found
        if (len(term) > 1 or not term.isascii()) and term.upper() not in OPERATORS
    ]
    once: dict[str, str] = {}
    for term in telling or found or normalise(text).split():
        once.setdefault(term.lower(), term[:LONGEST_TERM])
    return tuple(once.values())[:MOST_TERMS]


def _wanted(text: str) -> list[Clause]:
    return [clause for clause in exact_clauses(text) if clause.occur is not Occur.NOT]


BY_TIME = "m.created_ts DESC, m.id"
_CONTAINS = r"(m.subject LIKE ? ESCAPE '\' OR m.body LIKE ? ESCAPE '\')"


@dataclass(frozen=True, slots=True)
class LikeEngine:
    """Rows that contain every term and none refused, oldest id first; nothing is scored."""

    store: MessageStore
    table: str = MESSAGES

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        refused = (clause for clause in exact_clauses(text) if clause.occur is Occur.NOT)
        never = dict.fromkeys(one.text.strip().rstrip("*")[:LONGEST_TERM] for one in refused)
        asked = [
            *(Where(_CONTAINS, (pattern(term),) * 2) for term in extract_like_terms(text)),
            *(Where(f"NOT {_CONTAINS}", (pattern(term),) * 2) for term in [*never][:MOST_REFUSED]),
        ]
        found = self.listed([*asked, where(filters)], ranking, depth)
        if not asked:
            return found
        return replace(found, method="like", normalized_query=None, used_like_fallback=True)

    def listed(self, asked: Sequence[Where], ranking: RankingMode, depth: int) -> CandidateList:
        """List rows that meet all conditions, by id or newest first, with score 0."""
        sql = (
            f"SELECT m.id FROM {self.table} AS m"  # noqa: S608  our own text, values are bound
            f" WHERE {' AND '.join(one.sql for one in asked)}"
            f" ORDER BY {BY_TIME if ranking is RankingMode.RECENCY else 'm.id'} LIMIT ?"
        )
        most = within(depth)
        rows = self.store.read(sql, (*(param for one in asked for param in one.params), most + 1))
        shown = tuple((row[0], 0.0) for row in rows[:most])
        return CandidateList(shown, len(rows) <= most, "filter_only", "", sql)


def pattern(term: str) -> str:
    """Write a term for LIKE, anywhere in a text; its own signs mean themselves."""
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def within(depth: int) -> int:
    """Clamp a depth to what SQLite counts; a negative LIMIT means no limit."""
    return max(0, min(depth, contract.MOST - 1))


def matching_ids(store: MessageStore, filters: Filters) -> NDArray[np.int64]:
    """Return the ids that pass, ascending."""
    passing = where(filters)
    sql = f"SELECT m.id FROM messages AS m WHERE {passing.sql} ORDER BY m.id"  # noqa: S608  values are bound
    return np.array([row[0] for row in store.read(sql, passing.params)], dtype=np.int64)


_SYNTAX = ("fts5: ", "no such column: ", "unterminated string", "unknown special query")
"""How SQLite begins to say that it cannot read what stands after MATCH."""
_ALONE = (
    "SELECT rowid, rank FROM {fts} WHERE {fts} MATCH ? AND rank MATCH ?"
    " ORDER BY rank, rowid LIMIT ?"
)
"""By ``rank`` alone FTS5 sorts all that match; with a second key SQLite keeps only the best."""


@dataclass(frozen=True, slots=True)
class Fts5Engine:
    """The index beside the messages, or another table, kept by triggers.

    A query that FTS5 refuses is run once more as plain words, and then of LIKE (decision 4);
    ``note`` says so.
    """

    store: MessageStore
    weights: contract.Weights
    table: str = MESSAGES

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        rows = LikeEngine(self.store, self.table)
        if not normalise(text):
            return rows.search("", filters, ranking, depth)
        asked = match_expression(text)
        if asked.complement:
            return self._lacking(asked.expression, filters, ranking, depth)
        try:
            return self._match(asked.expression, filters, ranking, depth)
        except sqlite3.Error as exc:
            note = f"FTS5 refused the query ({_refusal(exc)})"
        plain = sanitize_fts_query(text)
        if plain is not None:
            try:
                found = self._match(plain, filters, ranking, depth)
                return replace(found, note=f"{note}; asked for its words")
            except sqlite3.Error as exc:
                note = f"{note}; and its words ({_refusal(exc)})"
        found = rows.search(text, filters, ranking, depth)
        return replace(found, note=f"{note}; asked LIKE")

    def _match(
        self, asked: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        passing, recent = where(filters), ranking is RankingMode.RECENCY
        fts, weights = f"{self.table}_fts", (self.weights.subject, 1, self.weights.identifiers)
        how: tuple[Param, ...] = (*weights, asked, *passing.params)
        if passing == EVERYTHING and not recent:
            sql = _ALONE.format(fts=fts)
            how = asked, f"bm25({', '.join(map(str, weights))})"
        else:
            sql = (
                f"SELECT m.id, bm25({fts}, ?, ?, ?) AS score{', m.created_ts' if recent else ''}"  # noqa: S608  values are bound
                f" FROM {fts} CROSS JOIN {self.table} AS m ON m.id = {fts}.rowid"
                f" WHERE {fts} MATCH ? AND {passing.sql}"
            )
            if recent:
                sql = f"SELECT m.id, score, min(score) OVER () FROM ({sql}) AS m"  # noqa: S608  as above
            sql += f" ORDER BY {BY_TIME if recent else 'score, m.id'} LIMIT ?"
        wanted = within(depth)
        rows = self.store.ask(sql, (*how, wanted + 1))
        return CandidateList(
            tuple((row[0], -row[1]) for row in rows[:wanted]),
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
        fts = f"{self.table}_fts"
        lacks = f"m.id NOT IN (SELECT rowid FROM {fts} WHERE {fts} MATCH ?)"  # noqa: S608  bound
        rows = LikeEngine(self.store, self.table)
        found = rows.listed([Where(lacks, (refused,)), where(filters)], ranking, depth)
        return replace(found, method="fts5", normalized_query=f"NOT ({refused})")


def _refusal(exc: sqlite3.Error) -> str:
    """Return the words with which FTS5 refused a query."""
    code = getattr(exc, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_ERROR and str(exc).startswith(_SYNTAX):
        return str(exc)
    raise search_error(exc, "FTS5 index") from exc
