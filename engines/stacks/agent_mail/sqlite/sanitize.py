"""What is left to ask when a query was refused: plain words for FTS5, terms for LIKE."""

from __future__ import annotations

import re

from engines.lexical.typed import Clause, Occur, exact_clauses, normalise, refusals
from engines.stacks.agent_mail.sqlite.match import prefix, quoted

OPERATORS = frozenset({"AND", "OR", "NOT", "NEAR"})
MOST_TERMS = 5
MOST_REFUSED = 20
LONGEST_TERM = 256
"""Characters; SQLite refuses a LIKE pattern of more than 50,000 bytes."""

_TOKEN = re.compile(r"[^\W_]+(?:[-_./]+[^\W_]+)*")
_STARRED = re.compile(_TOKEN.pattern + r"\*?")


def sanitize_fts_query(text: str) -> str | None:
    """Reduce ``text`` to quoted words joined by OR, which FTS5 refuses for no text.

    Operators, what must not match, and all signs but those that join a word are dropped. A joined
    word is the phrase of its parts, a star at the end of a single word asks for the prefix. None
    where no letter or digit is left.
    """
    found = [word for clause in _wanted(text) for word in _STARRED.findall(clause.text)]
    words = [word for word in found if word.rstrip("*").upper() not in OPERATORS]
    asked = (
        prefix(word) if word.endswith("*") and word[:-1].isalnum() else quoted(word.rstrip("*"))
        for word in dict.fromkeys(words)
    )
    return " OR ".join(asked) or None


def extract_like_terms(text: str) -> tuple[str, ...]:
    """Choose at most five terms of ``text``.

    Joined words stay whole, and so do phrases; what must not match is left out, and of a text that
    only refuses nothing stays. Operators and single ASCII characters are dropped where something
    better is there. A text without a letter or digit gives its pieces between white space, for
    LIKE can find what no index holds.
    """
    found: list[str] = []
    if refusals(text):
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


def refused_terms(text: str) -> tuple[str, ...]:
    """Give the words and phrases that must not be there, at most ``MOST_REFUSED``."""
    found = (clause for clause in exact_clauses(text) if clause.occur is Occur.NOT)
    terms = (clause.text.strip().rstrip("*")[:LONGEST_TERM] for clause in found)
    return tuple(dict.fromkeys(terms))[:MOST_REFUSED]


def _wanted(text: str) -> list[Clause]:
    return [clause for clause in exact_clauses(text) if clause.occur is not Occur.NOT]
