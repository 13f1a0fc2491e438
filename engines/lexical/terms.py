"""Terms that mean the same to FTS5 and to Tantivy: their text is ASCII, whatever was written.

Each engine has its own table of which characters are letters, and how they are lowered. So a word
that is not ASCII goes in by the hexadecimal form of its bytes, whatever its table. A run of
Chinese, Japanese, Korean, Thai, Lao, Khmer or Burmese has no spaces between its words: it goes in
as pairs of neighbours (bigrams). A picture such as an emoji is a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from engines.lexical.normal import Normal, folded, marks, word
from engines.lexical.typed import Clause, Occur

PREFIX = "zz"
"""Before the hexadecimal form of a word that is not ASCII."""
LONGEST = 200
"""Characters of a hexadecimal form that count; both engines keep terms of this length."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uaa60-\uaa7f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Scripts whose words have no spaces between them, and Korean, whose endings have none."""
_TERM = re.compile(r"[a-z0-9]+")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")


@cache
def _run() -> re.Pattern[str]:
    """Find runs of scripts without spaces, and between them runs of those with."""
    return re.compile(rf"(?P<unspaced>[{_UNSPACED}][{_UNSPACED}{marks()}]*)|[^{_UNSPACED}]+")


@cache
def _letter() -> re.Pattern[str]:
    return re.compile(rf"(?s:.)[{marks()}]*")


class ClauseTerms(NamedTuple):
    """What a clause looks for: its terms next to each other, any one of them, or both."""

    whole: tuple[str, ...]
    """A phrase, or a single term; empty where any one of the terms will do."""
    each: tuple[str, ...]
    """Terms of which each counts; none where only the phrase will do."""


def words(text: str) -> list[str]:
    """Give the words of a folded text in their order."""
    return word().findall(text)


def indexed(text: str) -> str:
    """Return what goes into an index of ``text``: ASCII, of which every engine reads the same.

    A text whose form is ASCII goes in as that form.
    """
    form = folded(text)
    return form if form.isascii() else _FOREIGN.sub(" ", word().sub(_written, form))


def spelled(text: str) -> str:
    """Write the terms of a text in lower case, with a space before, between and after them."""
    return f" {' '.join(_TERM.findall(indexed(text).lower()))} "


def passage(text: str, written: str) -> str:
    """Give the stretch of a text that a stretch of what is indexed of it stands for.

    Where that has the first or the last term of the text, so has this what is before or after.
    """
    if text.isascii() or not (count := _many(written)):
        return written if text.isascii() else text
    coded = indexed(text)
    first = _many(coded[: max(0, coded.find(written))])
    spans = list(islice(places(text), first, first + count + 1))
    start = spans[0][0] if first else 0
    return text[start : spans[count - 1][1] if len(spans) > count else None]


def _many(written: str) -> int:
    """Count the terms of an indexed text, whose ASCII words keep their case."""
    return len(_TERM.findall(written.lower()))


def places(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each term of ``indexed(text)`` stands in a text."""
    normal = Normal.of(text)
    for found in word().finditer(normal.text):
        for start, end in _spans(found[0]):
            yield normal.span(found.start() + start, found.start() + end)


def holds(clause: Clause) -> Callable[[str], bool]:
    """Make what tells whether a ``spelled`` text has the words of a clause next to each other."""
    phrase = " ".join(term for one in clause.words for term in terms(one)).lower()
    return lambda written: f" {phrase} " in written


def clause_terms(clause: Clause, joined: str) -> ClauseTerms:
    """Say what a clause looks for in an index of ``indexed`` texts.

    A joined word is its phrase, its words or both, as ``joined`` says. A run without spaces may
    hold many words. So where it may match, each of its pairs counts; where it must or must not
    match, it is a phrase.
    """
    of_words = [terms(one) for one in clause.words]
    every = tuple(term for some in of_words for term in some)
    if len(every) <= 1 or clause.quoted:
        return ClauseTerms(every, ())
    is_run = len(of_words) == 1
    if is_run and clause.occur is not Occur.SHOULD:
        return ClauseTerms(every, ())
    if joined == "phrase" and not is_run:
        return ClauseTerms(every, ())
    return ClauseTerms(() if joined == "words" else every, every)


def terms(typed: str) -> tuple[str, ...]:
    """Give the terms of a word of a query; an ASCII word is its own term, as it is typed."""
    return (typed,) if typed.isascii() else _coded(typed)


@lru_cache(maxsize=1 << 16)
def _coded(typed: str) -> tuple[str, ...]:
    return tuple(_code(part) for one in words(folded(typed)) for part in parts(one))


def parts(one: str) -> Iterator[str]:
    """Yield the terms of a word of a folded text as they read: itself, or pairs of letters."""
    for start, end in _spans(one):
        yield one if one.isascii() else one[start:end].lower()


def _spans(one: str) -> Iterator[tuple[int, int]]:
    if one.isascii():
        yield 0, len(one)
        return
    for run in _run().finditer(one):
        if not run["unspaced"]:
            yield run.span()
            continue
        letters = [letter.span() for letter in _letter().finditer(one, *run.span())]
        yield from ((a[0], b[1]) for a, b in pairwise(letters)) if letters[1:] else letters


def _code(one: str) -> str:
    return one if one.isascii() else (PREFIX + one.encode().hex())[:LONGEST]


def _written(found: re.Match[str]) -> str:
    one = found[0]
    return one if one.isascii() else f" {' '.join(map(_code, parts(one)))} "
