"""The form of a query, for sets that name no slices: what it looks like, not what is meant.

The classes are those by which the message search of the specification plans its candidates
(identifier, short keyword, natural language); here they are slices, told from the text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from harness.core.records import Query

IDENTIFIER, KEYWORD, NATURAL = "form-identifier", "form-keyword", "form-natural-language"
PREFIXES = ("br-", "thread:")
SIGNS = ("_", "/")
MOST_WORDS, LONGEST_MEAN = 2, 10
"""Of a keyword query: words, and characters of a word on average."""


def form(text: str) -> str | None:
    """Name the slice of a text; None where it holds no word.

    An identifier starts with ``br-`` or ``thread:``, has an underscore or a slash, has a word that
    mixes letters and digits, or has only hyphenated words. A keyword query has two words at
    most, of ten characters on average at most. All else is natural language.
    """
    words = text.split()
    if not words:
        return None
    if (
        words[0].lower().startswith(PREFIXES)
        or any(sign in text for sign in SIGNS)
        or any(map(_mixed, words))
        or all("-" in word.strip("-") for word in words)
    ):
        return IDENTIFIER
    mean = sum(map(len, words)) / len(words)
    return KEYWORD if len(words) <= MOST_WORDS and mean <= LONGEST_MEAN else NATURAL


def with_forms(queries: Iterable[Query]) -> Iterator[Query]:
    """Put every query into the slice of its form, beside those that it has."""
    for query in queries:
        found = form(query.text)
        yield replace(query, slices=(*query.slices, found)) if found else query


def _mixed(word: str) -> bool:
    return any(map(str.isalpha, word)) and any(map(str.isdigit, word))
