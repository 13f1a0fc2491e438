"""Texts that people paste, mistype or attack with: none of them may be an error."""

from __future__ import annotations

from collections.abc import Mapping

EMPTY: Mapping[str, str] = {
    "empty": "",
    "a space": " ",
    "NUL": "\0",
    "half a surrogate pair": "\ud800",
}
"""Texts of which nothing is left to search for."""
HOSTILE: Mapping[str, str] = {
    "white space": " \t\n\u00a0\u2003",
    "one quote": '"',
    "three quotes": '"""',
    "open quote": '"water rises',
    "empty phrase": '""',
    "operators alone": "AND OR NOT",
    "operators around a word": "NOT AND water OR",
    "operators one after another": "NOT NOT NOT not",
    "query language": "a:b^~*",
    "a column": "title:water",
    "a function": "NEAR(water sea, 5)",
    "brackets": "((((water",
    "a range": "[a TO z] {1 TO *}",
    "SQL": "'; DROP TABLE search; --",
    "NUL within": "water\0sea",
    "emoji": "😀",
    "joined emoji": "👩\u200d👩\u200d👧\u200d👦",
    "CJK": "東京",
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd",
    "combining marks": "\u0301\u0301 e\u0301",
    "a word newer than SQLite": "\U0001e900\U0001e901",
    "half a surrogate pair in words": "water \udfff sea",
    "punctuation": "!?.,;:-_/\\|@#$%^&*()[]{}<>~`",
    "a minus": "-",
    "a plus": "+",
    "minus and a word": "-water",
    "minus and a phrase": '-"water rises" +',
    "plus and a quote": '+"',
    "both signs": "+-water -+sea",
    "a wildcard": "wat*",
    "a number": "-1e309 0x7f NaN inf",
}


def long(words: int) -> Mapping[str, str]:
    """Write texts of that many words, or of about a hundred characters for each."""
    many = [f"word{at}" for at in range(words)]
    return {
        "words": " ".join(many),
        "a phrase": '"' + " ".join(many) + '"',
        "words joined": "-".join(many),
        "required words": "+" + " +".join(many),
        "excluded words": "-" + " -".join(many),
        "one word": "x" * (100 * words),
        "quotes": '"' * (100 * words),
        "plus signs": "+" * (100 * words),
        "text": "the water rises twice a day " * (4 * words),
    }
