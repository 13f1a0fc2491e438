"""Words of code search: the contract of its engines, queries, and SQLite FTS5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engines.lexical.grammar import seldom
from engines.lexical.tantivy import Language
from engines.lexical.terms import Clause, Occur
from engines.stacks.code.units import Rows, words

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
    """Return the terms of a query in their order, for phrases and near duplicates."""
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
    if clause.begun and (start := words(clause.words[0], "none")[0]):
        return TermClause(clause.occur, ((start[-1] + BEGUN,),))
    if clause.quoted or _is_run(clause):
        return TermClause(clause.occur, (tuple(in_order),) if in_order else ())
    joined = [whole for _, wholes in both for whole in wholes]
    return TermClause(clause.occur, tuple((term,) for term in seldom([*in_order, *joined], str)))


def _is_run(clause: Clause) -> bool:
    """Return of what must or must not match whether it may be words without spaces: a phrase."""
    return clause.occur is not Occur.SHOULD and not clause.text.isascii()


def _runs(clause: Clause) -> tuple[str, ...]:
    """Return the words of a clause, names with underscores whole."""
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
        """Return the ``depth`` best of the ``allowed`` rows (None: all), ties by row.

        Scores do not depend on ``allowed``.
        """
        ...


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
