"""What was typed, in FTS5's query language.

Every word stands in quotation marks, since FTS5 takes a bare hyphen, dot or apostrophe for syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from engines.lexical.identifiers import identifiers
from engines.lexical.typed import Clause, Occur, exact_clauses, normalise, refusals
from engines.stacks.agent_mail.sqlite.schema import whole

_PREFIX = re.compile(r"[^\W_]+\*")


def match_expression(text: str) -> str:
    """Write ``text`` for MATCH; empty where it is blank.

    A joined word is its phrase in any column, or the whole token in ``identifiers``; a single word
    is searched in that column with the others. A word with a star at its end is a prefix. Text
    without a letter or digit is searched as it is, so that FTS5 and nothing before it says that it
    matches nothing. What must match is written twice where something else may match, and bm25
    counts it twice. So the latter is written twice as well, and the order is that of counting all
    once. Of a text that only refuses, what must not match is written.
    """
    typed = normalise(text)
    wanted = [one for one in exact_clauses(typed) if any(map(str.isalnum, one.text))]
    if not wanted:
        return quoted(typed) if typed else ""
    groups: Mapping[Occur, list[str]] = {
        occur: [_one(clause) for clause in wanted if clause.occur is occur] for occur in Occur
    }
    if refusals(typed):
        return " OR ".join(groups[Occur.NOT])
    should, must, never = groups[Occur.SHOULD], groups[Occur.MUST], groups[Occur.NOT]
    asked = " OR ".join(should) if should or must else quoted("")
    if must:
        every = " AND ".join(must)
        asked = f"({every}) AND ({every} OR {asked} OR {asked})" if asked else every
    return f"({asked}) NOT ({' OR '.join(never)})" if never else asked


def quoted(text: str) -> str:
    """Write ``text`` as an FTS5 string: a phrase of the tokens in it."""
    return '"' + text.replace('"', '""') + '"'


def prefix(word: str) -> str:
    """Write ``word*`` as FTS5 wants it, with the star outside the marks.

    The texts alone are searched: an identifier that begins so has its beginning in them as well.
    """
    return "{subject body} : " + quoted(word.rstrip("*")) + "*"


def _one(clause: Clause) -> str:
    if clause.quoted:
        return quoted(clause.text)
    if _PREFIX.fullmatch(clause.text):
        return prefix(clause.text)
    if len(clause.words) == 1:
        return quoted(clause.text)
    tokens = dict.fromkeys(identifiers(clause.text))
    if not tokens:
        return quoted(clause.text)
    kept = (f"identifiers : {quoted(whole([token]))}" for token in tokens)
    return "(" + " OR ".join([quoted(clause.text), *kept]) + ")"
