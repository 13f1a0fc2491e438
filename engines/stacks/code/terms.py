"""Words of code and prose: ``DataFrame.read_csv`` gives data, frame, read, csv and the wholes.

Both backends index the terms made here and split them at spaces only, so that they count the same
words. A name of several parts stands in its place part by part, and once more joined, behind the
text. ``readcsv`` is found by whoever types it so, and phrases of parts stay phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from engines.lexical.analysis import Language, analyzer
from engines.lexical.normal import folded, word
from engines.lexical.terms import terms

LONGEST_BYTES = 200
"""Longer words are not words; data pasted into code."""
_RUN = re.compile(r"[^\W_]++(?:_++[^\W_]++)*+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def _any_run() -> re.Pattern[str]:
    return re.compile(rf"(?:{word().pattern})(?:_++(?:{word().pattern}))*+")


def parts(run: str) -> list[str]:
    """Split a name at underscores and humps: ``HTTPServer_v2`` is http, server, v2."""
    return [hump.lower() for piece in run.split("_") if piece for hump in _HUMP.split(piece)]


def words(text: str, language: Language) -> tuple[list[str], list[str]]:
    """Give the terms of ``text`` in their order, and the joined forms of its names."""
    in_order: list[str] = []
    wholes: list[str] = []
    for run in _RUN.findall(text) if text.isascii() else _any_run().findall(folded(text)):
        pieces = parts(run)
        in_order.extend(term for piece in pieces for term in _term(piece, language))
        if len(pieces) > 1 and (whole := "".join(pieces)).isascii():
            wholes.extend([whole] if len(whole) <= LONGEST_BYTES else [])
    return in_order, wholes


def indexed(text: str, language: Language) -> str:
    """Write what is indexed of ``text``: its terms, then the joined forms of its names."""
    in_order, wholes = words(text, language)
    return " ".join([*in_order, *wholes])


def typed(run: str, language: Language) -> Iterator[str]:
    """Yield terms of a word of a query in their order; no joined form among them."""
    yield from words(run, language)[0]


@lru_cache(maxsize=1 << 16)
def _term(piece: str, language: Language) -> tuple[str, ...]:
    """Stem a word; a stop word gives none, and one that is not ASCII has the terms of any index."""
    if len(piece) > LONGEST_BYTES:
        return ()
    found = (stem for one in terms(piece) for stem in analyzer(language).analyze(one))
    return tuple(term for term in found if len(term) <= LONGEST_BYTES)
