"""The part of a found text that shows why it was found."""

from __future__ import annotations

from functools import cache

LEAD = 60
"""Characters before the first word that was looked for."""


def around(text: str, query: str, most: int) -> str:
    """Give at most so many characters of a text: those with most of a query's words.

    Words are compared by their English stems, as the word index does. Of equal parts the first is
    given, and the beginning where it has as many words as any.
    """
    from engines.lexical.typed import positive, words_in

    if len(text) <= most:
        return text
    wanted = {_stem(one.group()) for one in words_in(positive(query))} - {""}
    places = [
        (*one.span(), stem) for one in words_in(text) if (stem := _stem(one.group())) in wanted
    ]
    begin, shown = 0, _within(places, 0, most)
    for start, _, _ in places:
        lead = max(0, start - LEAD)
        if (found := _within(places, lead, lead + most)) > shown:
            begin, shown = lead, found
    while 0 < begin < len(text) and not text[begin - 1].isspace():
        begin += 1
    return text[begin : begin + most] if begin == 0 else f"… {text[begin : begin + most - 2]}"


def _within(places: list[tuple[int, int, str]], begin: int, end: int) -> int:
    return len({stem for start, last, stem in places if begin <= start and last <= end})


@cache
def _stem(word: str) -> str:
    """Give a word's stem; empty for a word that says nothing, such as ``the``."""
    from engines.lexical.analysis import analyzer

    return "".join(analyzer("english").analyze(word))
