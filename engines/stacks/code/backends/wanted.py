"""A query as both backends take it: terms and phrases that may, must or must not match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engines.lexical.analysis import Language
from engines.lexical.typed import Clause, Occur, seldom
from engines.stacks.code.terms import words

Phrase = tuple[str, ...]


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
