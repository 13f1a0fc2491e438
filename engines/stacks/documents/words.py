"""The words of a text as the word index counts them (specification 004, section 3)."""

from __future__ import annotations

import re
from functools import cache

from engines.lexical.normal import folded, word
from engines.lexical.terms import parts

STOP_WORDS = frozenset([
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is"),
    *("it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there"),
    *("these", "they", "this", "to", "was", "will", "with"),
])
"""The specification names none; these 33 are the ones that Lucene has always left out."""
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BROKEN = re.compile(r"(?<![^\W\d_])([^\W\d_]++)[-\xad\u2010][ \t]*+\r?\n[ \t]*+([^\W\d_]++)")
"""A word that a line break parts. It begins where a word does and never goes back, so that a
megabyte without a space takes no longer than it is."""
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'"})


@cache
def _any_word() -> re.Pattern[str]:
    return re.compile(rf"(?:{word().pattern})(?:'(?:{word().pattern}))*")


def words(text: str) -> list[str]:
    """Lower-case, split at what is not a letter or digit, drop stop words and single characters.

    An apostrophe within a word stays, in one spelling; one at its edge is a quotation mark. Text
    that is not ASCII is folded, and runs without spaces are pairs of letters, as in every word
    index. A word that a line break parts counts whole, and so do its parts.
    """
    whole = (first + rest for first, rest in _BROKEN.findall(text) if rest.islower())
    typed = folded(" ".join([text, *whole]).translate(_APOSTROPHES)).lower()
    found = _WORD.findall(typed)
    if not typed.isascii():
        found = [part for one in _any_word().findall(typed) for part in parts(one)]
    return [one for one in found if _counts(one) and one not in STOP_WORDS]


def unbroken(text: str) -> str:
    """Join words that a hyphen parts at the end of a line."""
    return _BROKEN.sub(_joined, text)


def _joined(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}\n" if found[2].islower() else found[0]


def _counts(one: str) -> bool:
    """Tell of a single character whether it is a word: a letter of a script without case is."""
    return len(one) > 1 or (not one.isascii() and not one.isdigit() and one.lower() == one.upper())
