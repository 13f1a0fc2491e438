"""A query's words within bounds, so that no text takes an engine much longer than another."""

from __future__ import annotations

import re
from typing import NamedTuple

from engines.lexical.typed import words_in

MAX_WORDS = 200
"""Words that are searched for as they were typed. Of a longer text each word counts once."""
_PIECE = re.compile(r'[+-]?"[^"]*"|[^\s"]+')
_BARE = re.compile(r'[+\-"]')


class Bounded(NamedTuple):
    """What is searched for, and what there is to say of it; empty where nothing was left out."""

    text: str
    note: str = ""


def bounded(text: str) -> Bounded:
    """Keep a text of up to ``MAX_WORDS`` words as it is.

    Of a longer one each piece, a phrase or what stands between white space, is kept once, in the
    order met, until the words are full. A piece that is too long is cut.
    """
    total = len(words_in(text))
    if total <= MAX_WORDS:
        return Bounded(text)
    kept: dict[str, str] = {}
    left = MAX_WORDS
    for piece in _PIECE.findall(text):
        key = _BARE.sub("", piece).casefold()
        words = words_in(piece)
        if key in kept or not words:
            continue
        end = words[:left][-1].end()
        closing = '"' if '"' in piece[:end] else ""
        kept[key] = piece if len(words) <= left else piece[:end] + closing
        left -= len(words)
        if left <= 0:
            break
    said = f"{total} words: each was searched for once, and at most {MAX_WORDS}"
    return Bounded(" ".join(kept.values()), said)
