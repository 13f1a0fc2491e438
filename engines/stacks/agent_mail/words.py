"""Words of messages as both engines ask for them: ASCII as it is, other text in its one form."""

from __future__ import annotations

from engines.lexical.terms import Clause, ClauseTerms, clause_terms, folded, identifiers, terms


def begun(clause: Clause) -> tuple[str, ...]:
    """Return the terms of a word with a star at its end, the last one begun; else none."""
    return terms(clause.words[0]) if clause.begun else ()


def sought(clause: Clause) -> ClauseTerms:
    """Return what a clause beyond ASCII looks for: its phrase, and each pair of a run."""
    return clause_terms(clause, "phrase")


def names(text: str) -> tuple[str, ...]:
    """Return the identifiers of a text, in its form."""
    return identifiers(folded(text))
