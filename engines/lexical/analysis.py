"""How Tantivy splits text into terms."""

from __future__ import annotations

from functools import cache
from typing import Literal

import tantivy

Language = Literal["none", "english"]
LONGEST_TERM_BYTES = 256


@cache
def analyzer(language: Language) -> tantivy.TextAnalyzer:
    """Split on everything but letters and digits, lower-case, drop terms of 256 bytes and more.

    ``english`` adds Tantivy's English stop words and the Snowball stemmer.
    """
    builder = (
        tantivy
        .TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(LONGEST_TERM_BYTES))
        .filter(tantivy.Filter.lowercase())
    )
    if language == "english":
        builder = builder.filter(tantivy.Filter.stopword("english"))
        builder = builder.filter(tantivy.Filter.stemmer("english"))
    return builder.build()
