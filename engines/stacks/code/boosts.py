"""Boosts after fusion: the definition of what was requested, and words that stand together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from engines.stacks.code.catalog import Entry
from engines.stacks.code.config import Boosts
from engines.stacks.code.terms import parts

MOST_PHRASES = 5
"""Pairs of words beyond these add nothing."""


class Boosted(NamedTuple):
    """The factor on a score, at least 1, and what explain says of its parts."""

    factor: float
    symbol: dict[str, Any]
    phrase: dict[str, Any]


class BoostQuery(NamedTuple):
    """A query as boosts see it."""

    names: frozenset[str]
    """What it may name: each word joined and lower-cased, and each two or three in a row."""
    pairs: tuple[str, ...]
    """Each two terms in a row, without repetition."""


def asked(words: Sequence[str], terms: Sequence[str]) -> BoostQuery:
    """Prepare a query: its words as typed, and its terms."""
    flat = ["".join(parts(word)) for word in words]
    runs = {
        "".join(flat[at : at + size]) for size in (1, 2, 3) for at in range(len(flat) - size + 1)
    }
    pairs = dict.fromkeys(f" {one} {two} " for one, two in pairwise(terms))
    return BoostQuery(frozenset(runs - {""}), tuple(pairs))


def boosted(entry: Entry, question: BoostQuery, weights: Boosts) -> Boosted:
    """Weigh one candidate.

    A symbol is named where its bare name, without underscores and case, is a word of the query
    or several in a row: ``read csv`` names ``read_csv``.
    """
    facts = entry.unit.facts
    named = bool(facts.symbol) and "".join(parts(facts.symbol)) in question.names
    definition = weights.definition if named else 1.0
    export = weights.export if named and facts.exported else 1.0
    matches = _together(entry, question.pairs) if weights.phrase else 0
    phrase = 1.0 + weights.phrase * min(MOST_PHRASES, matches)
    return Boosted(
        definition * export * phrase,
        {"named": named, "exported": facts.exported, "definition": definition, "export": export},
        {"matches": matches, "factor": phrase},
    )


def most(weights: Boosts) -> float:
    """Give the largest factor that there can be, by which scores stay within [0, 1]."""
    return weights.definition * weights.export * (1.0 + weights.phrase * MOST_PHRASES)


def _together(entry: Entry, pairs: Sequence[str]) -> int:
    if not pairs:
        return 0
    texts = [f" {text} " for text in entry.terms]
    return sum(any(pair in text for text in texts) for pair in pairs)
