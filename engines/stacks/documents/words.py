"""The words of a text as the word index counts them (specification 004, section 3)."""

from __future__ import annotations

import re

STOP_WORDS = frozenset([
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is"),
    *("it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there"),
    *("these", "they", "this", "to", "was", "will", "with"),
])
"""The specification names none; these 33 are the ones that Lucene has always left out."""
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'"})


def words(text: str) -> list[str]:
    """Lower-case, split at what is not a letter or digit, drop stop words and single characters.

    An apostrophe within a word stays, in one spelling; one at its edge is a quotation mark.
    """
    found = _WORD.findall(text.lower().translate(_APOSTROPHES))
    return [word for word in found if len(word) > 1 and word not in STOP_WORDS]
