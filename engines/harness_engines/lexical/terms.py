"""What a person typed, taken apart, as terms that mean the same to every engine."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from itertools import filterfalse, islice, pairwise
from typing import NamedTuple

FIRST_MARK, LAST_MARK = 0x300, 0x1FFFF
"""No mark of a script stands before or after; those that choose a picture are named below."""
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
ACCENTED = "\u0530"
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
        made += [text[end : cluster.start()], _folded_normal(cluster[0])]
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
    def of(cls, text: str) -> "Normal":
        """Take the form of a text; ``Normal.of(text).text`` is ``folded(text)``."""
        made: list[str] = []
        places: list[int] = [0]
        spans: list[tuple[int, int]] = [(0, 0)]
        end = length = 0
        for cluster in _clusters_of(text):
            form = _folded_normal(cluster[0])
            made += [text[end : cluster.start()], form]
            length += cluster.start() - end
            places += [length, length + len(form)]
            spans += [cluster.span(), (cluster.end(), cluster.end())]
            length, end = length + len(form), cluster.end()
        return cls("".join([*made, text[end:]]), tuple(places), tuple(spans))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return what characters ``start`` up to ``end`` stand for, clusters of the text whole."""
        first, last = self._at(start), self._at(max(start, end - 1))
        return first[0], last[1]

    def _at(self, place: int) -> tuple[int, int]:
        at = bisect_right(self._places, place) - 1
        begin, (start, end) = self._places[at], self._spans[at]
        return (start, end) if end > start else (start + place - begin, start + place - begin + 1)


def _clusters_of(text: str) -> Iterator[re.Match[str]]:
    """Yield clusters beside characters beyond ASCII alone; each mark is one of them."""
    clusters, end = _clusters(), 0
    for run in _BEYOND_ASCII.finditer(text):
        for cluster in clusters.finditer(text, max(end, run.start() - 1), run.end()):
            yield cluster
            end = cluster.end()


@lru_cache(maxsize=1 << 16)
def _folded_normal(cluster: str) -> str:
    """Fold a letter with its marks, which reads the same whatever stands beside it."""
    base = ""
    kept: list[str] = []
    for sign in _LEFT_OUT.sub("", unicodedata.normalize("NFKD", cluster)):
        if not unicodedata.category(sign).startswith("M"):
            base = sign
        elif unicodedata.combining(sign) in POINTS or (
            "" < base < ACCENTED and unicodedata.name(sign, "").startswith("COMBINING")
        ):
            continue
        kept.append(sign)
    form = unicodedata.normalize("NFKC", "".join(kept).casefold())
    if form.isascii() and cluster[0].isupper():
        form = form.upper()
    stands_for = unicodedata.normalize("NFKD", cluster[0])
    is_sign = unicodedata.category(cluster[0]) == "So" and stands_for != cluster[0]
    apart = is_sign or FRACTION in stands_for
    return f" {form} " if apart and any(map(str.isalnum, form)) else form


def mended(text: str) -> str:
    """Replace half of a surrogate pair, which no file can hold; lengths stay."""
    return _HALF_A_PAIR.sub("\ufffd", text)


LONGEST_BYTES = 255
"""Longer tokens are not identifiers; the text fields drop their parts at the same length."""

SHORTEST_WORD = 7
"""ASCII letters and digits, as many as Git shows of a commit; ``2nd`` and ``10ms`` name nothing."""

_NAME = re.compile(r"[^\W_]++(?:[-_./]++[^\W_]++)*+")
"""A word, or words joined; it never goes back, so a megabyte takes no longer than it is."""
_SIGN_NAME = re.compile(
    r"(?<![A-Za-z0-9_])[A-Za-z][A-Za-z0-9]*+(?:\+\+(?![A-Za-z_#+])|#(?![A-Za-z0-9_#+]))"
    r"|(?<![A-Za-z0-9_.)\]}\"'])\.[A-Za-z][A-Za-z0-9]*+(?!_)"
)
"""A name with a sign, such as ``C#``, ``C++`` and ``.NET``; without it, it is another word."""
_POINTED = re.compile(r"\.(?<![A-Za-z0-9_.)\]}\"']\.)[A-Za-z]")
"""The beginning of ``.NET``; it is looked for by its first character, which takes a tenth."""
_ELIDED = re.compile(
    r"\W*(?:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu|(?:d?a|de|ne|su)ll|un)['\u2019](\w{2,})\W*",
    re.IGNORECASE,
)
"""A word behind an article or the like that lost its vowel: ``l'avion``, ``dell'arte``."""


def sign_names(text: str) -> list[str]:
    """Find names with a sign, such as ``C#``, in the order of the text and in lower case."""
    return [name.lower() for name in _SIGN_NAME.findall(text)]


def elided_words(words: Iterable[str]) -> list[str]:
    """Find what stands behind an elision, such as ``avion`` in ``l'avion``."""
    return [found[1] for one in words if "'" in one and (found := _ELIDED.fullmatch(one))]


def identifiers(text: str) -> tuple[str, ...]:
    """Find every joined token, and every long word with a digit in it, lower-cased.

    A joined token holds hyphens, underscores, dots or slashes between its words. Names come in the
    order of the text, as often as they occur, and begin and end with a letter or digit:
    ``./run.py`` gives ``run.py``.
    """
    found = [
        name.lower()
        for name in filterfalse(str.isalpha, _NAME.findall(text))
        if not name.isalnum() or (len(name) >= SHORTEST_WORD and name.isascii())
    ]
    return tuple(token for token in found if len(token.encode()) <= LONGEST_BYTES)


class Occur(StrEnum):
    """Whether a clause may, must or must not match."""

    SHOULD = "should"
    MUST = "must"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Clause:
    """A word, a phrase, or a joined word such as ``read_csv`` or ``br-2tnl``."""

    occur: Occur
    words: tuple[str, ...]
    """Runs of letters and digits with their marks, and emoji, as typed."""
    quoted: bool
    """Whether the words came in quotation marks; several unquoted ones are a joined word."""
    text: str = field(default="", compare=False)
    """As typed, without sign and quotation marks; holds no more words than ``words``."""

    @property
    def is_name(self) -> bool:
        """Whether its words are one name: no bracket stands between them, and no field's colon."""
        if self.text.isalnum():
            return True
        spans = words_in(self.text)
        between = [self.text[a.end() : b.start()] for a, b in pairwise(spans)]
        is_field = between[:1] == [":"] and spans[0][0].isalpha()
        return not (is_field or any(map(_BRACKET.search, between)))

    @property
    def begun(self) -> bool:
        """Whether any word that begins so will do: ``conf*``."""
        if self.quoted or not self.text.endswith("*"):
            return False
        return [f"{one}*" for one in self.words] == [self.text]

    @property
    def sign_name(self) -> str:
        """The name with a sign that the clause is, in lower case; empty where it is another."""
        if self.quoted or len(self.words) != 1 or self.text.isalnum():
            return ""
        found = sign_names(self.text)
        return found[0] if [one.strip(".#+") for one in found] == [self.words[0].lower()] else ""

    @property
    def elided(self) -> str:
        """The word behind an elision: ``avion`` of ``l'avion``; empty where there is none."""
        if self.quoted or len(self.words) != 2:  # noqa: PLR2004  the article and its word
            return ""
        return self.words[1] if _ELIDED.fullmatch(self.text) else ""


_BRACKET = re.compile(r"[()\[\]{}\uff08\uff09\u3008-\u3011]|(?<![-=])[<>](?![-=])")
"""What stands between words, and not within a name; an arrow may."""
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")


def normalise(text: str) -> str:
    """Trim, and collapse white space; a NUL and half a surrogate pair count as white space."""
    return " ".join(holdable(text).split())


def holdable(text: str) -> str:
    """Replace NUL and half a surrogate pair by a space: no server and no file holds them."""
    return _NO_CHARACTER.sub(" ", text)


def words_in(text: str) -> list[re.Match[str]]:
    """Find the words of a text as ``Clause.words`` has them, each with its place."""
    return list((_WORD if text.isascii() else word()).finditer(text))


FORM = "words 2"
"""Names how texts become terms; an index of another is built anew."""
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
    """Return the words of a folded text in their order."""
    return word().findall(text)


def indexed(text: str) -> str:
    """Return what goes into an index of ``text``, with a term behind each name with a sign."""
    form = folded(text)
    if "#" in form or "++" in form or _POINTED.search(form):
        form = _SIGN_NAME.sub(lambda one: f"{one[0]} {sign_term(one[0])} ", form)
    return coded(form)


def coded(text: str) -> str:
    """Write a text in ASCII, of which every engine reads the same; ASCII stays as it is."""
    form = folded(text)
    return form if form.isascii() else _FOREIGN.sub(" ", word().sub(_written, form))


def sign_term(name: str) -> str:
    """Return the term of a name with a sign, which stands behind that of its letters."""
    return (PREFIX + name.lower().encode().hex())[:LONGEST]


def spelled(text: str) -> str:
    """Write the terms of a text in lower case, with a space before, between and after them."""
    return f" {' '.join(_TERM.findall(indexed(text).lower()))} "


def passage(text: str, written: str) -> str:
    """Return the stretch of a text that a stretch of what is indexed of it stands for.

    Where that has the first or the last term of the text, so has this what is before or after.
    """
    if (coded := indexed(text)) == text:
        return written
    if not (count := len(_TERM.findall(written.lower()))):
        return text
    first = len(_TERM.findall(coded[: max(0, coded.find(written))].lower()))
    spans = list(islice(places(text), first, first + count + 1))
    start = spans[0][0] if first else 0
    return text[start : spans[count - 1][1] if len(spans) > count else None]


def places(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each term of ``indexed(text)`` stands in a text."""
    normal, begin = Normal.of(text), 0
    for sign in (*_SIGN_NAME.finditer(normal.text), None):
        finish = sign.end() if sign else len(normal.text)
        for found in word().finditer(normal.text, begin, finish):
            for start, end in _spans(found[0]):
                yield normal.span(found.start() + start, found.start() + end)
        if sign:
            yield normal.span(*sign.span())
        begin = finish


def holds(clause: Clause) -> Callable[[str], bool]:
    """Make what tells whether a ``spelled`` text has what a clause looks for."""
    end = "" if clause.begun else " "
    rows = [f" {' '.join(row).lower()}{end}" for row in alternatives(clause)]
    return lambda written: any(row in written for row in rows)


def alternatives(clause: Clause) -> tuple[tuple[str, ...], ...]:
    """Return rows of terms of which any one will do; none where nothing could be indexed.

    What is neither a phrase nor a name may be any of its words, unless it is refused.
    """
    every = in_order(clause)
    if clause.elided:
        return every, terms(clause.elided)
    if not every or clause.quoted or clause.is_name or clause.occur is Occur.NOT:
        return (every,) if every else ()
    return (every, *((one,) for one in every))


def in_order(clause: Clause, *, signs: bool = True) -> tuple[str, ...]:
    """Return the terms of a clause as they stand in an index; ``signs`` have terms of their own."""
    if signs and not clause.text.isalnum() and _SIGN_NAME.search(clause.text):
        return tuple(_TERM.findall(indexed(clause.text).lower()))
    return tuple(term for one in clause.words for term in terms(one))


def clause_terms(clause: Clause, joined: str, *, signs: bool = True) -> ClauseTerms:
    """Return what a clause looks for in an index of ``indexed`` texts, or ``coded`` ones.

    A joined word is its phrase, its words or both, as ``joined`` says; of what is not a name both,
    unless it is refused. A run without spaces may hold many words. So where it may match, each
    of its pairs counts; where it must or must not match, it is a phrase. A name with a sign is as
    a run, and of an elided word its phrase or the word alone.
    """
    every = in_order(clause, signs=signs)
    if len(every) <= 1 or clause.quoted:
        return ClauseTerms(every, ())
    left = terms(clause.elided) if clause.elided else ()
    if len(left) == 1:
        return ClauseTerms(() if joined == "words" else every, left)
    is_run = len(clause.words) == 1
    if is_run and clause.occur is not Occur.SHOULD:
        return ClauseTerms(every, ())
    if joined == "phrase" and not is_run and (clause.is_name or clause.occur is Occur.NOT):
        return ClauseTerms(every, ())
    return ClauseTerms(() if joined == "words" else every, every)


def terms(typed: str) -> tuple[str, ...]:
    """Return the terms of a word of a query; an ASCII word is its own term, as it is typed."""
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
