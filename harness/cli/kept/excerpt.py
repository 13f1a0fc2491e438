"""The part of a found text that shows why it was found."""

from __future__ import annotations

from functools import cache

LEAD = 60
"""Characters before the first word that was looked for."""
BEFORE, AFTER = "… ", "…"
"""What stands where text is left out."""


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
    begin, first, shown = 0, 0, _within(places, 0, most - len(AFTER))
    room = most - len(BEFORE) - len(AFTER)
    for start, _, _ in places:
        lead = max(0, start - LEAD)
        if lead and (found := _within(places, lead, lead + room)) > shown:
            begin, first, shown = lead, start, found
    while begin < first and not text[begin - 1].isspace():
        begin += 1
    if begin == 0:
        return text[: most - len(AFTER)] + AFTER
    end = begin + room
    return f"{BEFORE}{text[begin:end]}{AFTER if end < len(text) else ''}"


def _within(places: list[tuple[int, int, str]], begin: int, end: int) -> int:
    return len({stem for start, last, stem in places if begin <= start and last <= end})


@cache
def _stem(word: str) -> str:
    """Give a word's stem; empty for a word that says nothing, such as ``the``."""
    from engines.lexical.analysis import analyzer

    return "".join(analyzer("english").analyze(word))
