"""One form for text that looks alike: composed or not, wide or narrow, accented or not.

ASCII stays as it is, and what becomes ASCII keeps its case: engines lower it. Of all other text the
compatibility form (NFKC) is taken, in lower case. Accents of Latin, Greek and Cyrillic letters are
left out. So are the vowel points of Hebrew and Arabic, soft hyphens, joiners, tones of emoji and
other signs that are not seen. Marks of other scripts are parts of their letters and stay.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

FIRST_MARK, LAST_MARK = 0x300, 0x1FFFF
"""No mark of a script stands before or after; those that choose a picture are named below."""
ACCENTED = 0x530
"""Below are the letters of Latin, Greek and Cyrillic, which are also written without accents."""
POINTS = range(10, 36)
"""Combining classes of the vowel points of Hebrew and Arabic."""
_PICTURES = "\ufe00-\ufe0f\U000e0100-\U000e01ef\U0001f3fb-\U0001f3ff"
"""Which of several pictures of a sign, and which tone of skin."""
_UNSEEN = "\xad\u115f\u1160\u3164\uffa0\u0600-\u0605\u0640\u061c\u06dd\u070f"
_UNSEEN += (
    "\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f\u20e3\ufeff\ufff9-\ufffb\U000e0001-\U000e007f"
    + _PICTURES
)
_CONTINUED = "\u1160-\u11ff\uff9e\uff9f\uffa0-\uffdc\u0e33\u0eb3"
"""Ends of Korean syllables, voicing of narrow Japanese, and vowels of Thai and Lao whose form
begins with a mark: they compose with what is before."""
PICTURE = "\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
"""Signs that are words: emoji and their elders, but for the tones."""
_LEFT_OUT = re.compile(f"[{_UNSEEN}]")
FRACTION = "\u2044"
"""In the form of a fraction such as one half, which stands apart from a number before it."""


@cache
def marks() -> str:
    """Return every mark that combines with a letter, as the inside of a character class."""
    codes = range(FIRST_MARK, LAST_MARK + 1)
    found = [code for code in codes if unicodedata.category(chr(code)).startswith("M")]
    firsts = [code for code, before in zip(found, [-1, *found], strict=False) if code != before + 1]
    lasts = [code for code, after in zip(found, [*found[1:], -1], strict=True) if code + 1 != after]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


@cache
def _clusters() -> re.Pattern[str]:
    """Find what is read together and is not a single ASCII character."""
    return re.compile(rf"(?s:.)[{marks()}{_UNSEEN}{_CONTINUED}]+|[^\x00-\x7f]")


@cache
def word() -> re.Pattern[str]:
    """Find a run of letters and digits with their marks, or a picture such as an emoji."""
    beside = rf"(?![\x00-\x7f])[{marks()}{_UNSEEN}]"
    return re.compile(rf"[^\W_]++(?:{beside}[^\W_]*+)*+|[{PICTURE}](?:{beside})*+")


def folded(text: str) -> str:
    """Return the form of ``text`` that all engines read; it is its own form."""
    if text.isascii():
        return text
    made: list[str] = []
    end = 0
    for cluster in _clusters_of(text):
        made += [text[end : cluster.start()], _folded(cluster[0])]
        end = cluster.end()
    return "".join([*made, text[end:]])


@dataclass(frozen=True, slots=True)
class Normal:
    """The form of a text, and which characters of the text each of it stands for."""

    text: str
    _places: tuple[int, ...]
    """Where a stretch begins in ``text`` whose length is not that of what it stands for."""
    _spans: tuple[tuple[int, int], ...]
    """What each of these stretches stands for."""

    @classmethod
    def of(cls, text: str) -> Normal:
        """Take the form of a text; ``Normal.of(text).text`` is ``folded(text)``."""
        made: list[str] = []
        places: list[int] = [0]
        spans: list[tuple[int, int]] = [(0, 0)]
        end = length = 0
        for cluster in _clusters_of(text):
            form = _folded(cluster[0])
            made += [text[end : cluster.start()], form]
            length += cluster.start() - end
            places += [length, length + len(form)]
            spans += [cluster.span(), (cluster.end(), cluster.end())]
            length, end = length + len(form), cluster.end()
        return cls("".join([*made, text[end:]]), tuple(places), tuple(spans))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Give the stretch of the text that characters ``start`` up to ``end`` stand for.

        What is read together stands there whole.
        """
        first, last = self._at(start), self._at(max(start, end - 1))
        return first[0], last[1]

    def _at(self, place: int) -> tuple[int, int]:
        at = bisect_right(self._places, place) - 1
        begin, (start, end) = self._places[at], self._spans[at]
        return (start, end) if end > start else (start + place - begin, start + place - begin + 1)


def _clusters_of(text: str) -> Iterator[re.Match[str]]:
    """Yield clusters beside characters beyond ASCII alone; each mark is one of them.

    The classes of ``_clusters`` are large, and slow where they are tried behind every character.
    """
    clusters, end = _clusters(), 0
    for run in _BEYOND_ASCII.finditer(text):
        for cluster in clusters.finditer(text, max(end, run.start() - 1), run.end()):
            yield cluster
            end = cluster.end()


@lru_cache(maxsize=1 << 16)
def _folded(cluster: str) -> str:
    """Fold a letter with its marks, which reads the same whatever stands beside it."""
    base = ""
    kept: list[str] = []
    for sign in _LEFT_OUT.sub("", unicodedata.normalize("NFKD", cluster)):
        if not unicodedata.category(sign).startswith("M"):
            base = sign
        elif _is_accent(sign, base) or unicodedata.combining(sign) in POINTS:
            continue
        kept.append(sign)
    form = unicodedata.normalize("NFKC", "".join(kept).casefold())
    if form.isascii() and cluster[0].isupper():
        form = form.upper()
    stands_for = unicodedata.normalize("NFKD", cluster[0])
    is_sign = unicodedata.category(cluster[0]) == "So" and stands_for != cluster[0]
    apart = is_sign or FRACTION in stands_for
    return f" {form} " if apart and any(map(str.isalnum, form)) else form


def _is_accent(mark: str, base: str) -> bool:
    common = unicodedata.name(mark, "").startswith("COMBINING")
    return common and bool(base) and ord(base) < ACCENTED
