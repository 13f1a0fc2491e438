"""What a person typed, taken apart: words, joined words, phrases, and what must or must not be.

Several words mean OR. ``"quoted words"`` are a phrase, ``+word`` must be there, ``-word`` must
not, and AND, OR and NOT in capitals keep their meaning (decision 2 of the agent mail stack). But
where the whole text is in capitals, they do not stand out and are words. No text is an error:
whatever cannot be read as syntax is read as words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar
from unicodedata import combining, normalize

from engines.lexical.normal import word

MOST_WORDS = 1_000
"""Words beyond these are not searched for; a query is typed or pasted, not a book."""

MOST_REPEATS = 8
"""How often the same clause counts. The time that FTS5 takes grows with the square of repeats."""

_PIECE = re.compile(r'(?P<sign>[+-])?(?:"(?P<phrase>[^"]*)"|(?P<plain>[^\s"]+))')
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")
_PLAIN = re.compile(r"[^\W_]++(?: [^\W_]++)*+")
"""Words alone; most of what is typed, and quickly taken apart."""
_OR = re.compile(r"\bOR\b")
_OPERATORS = frozenset({"AND", "OR", "NOT"})
Item = TypeVar("Item")


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


def normalise(text: str) -> str:
    """Trim, and collapse white space; a NUL and half a surrogate pair count as white space."""
    return " ".join(_NO_CHARACTER.sub(" ", text).split())


def words_in(text: str) -> list[re.Match[str]]:
    """Find the words of a text as ``Clause.words`` has them, each with its place."""
    return list((_WORD if text.isascii() else word()).finditer(text))


def words_alone(typed: str) -> list[str]:
    """Give the words of normalised text where it has nothing else, each a clause; else none."""
    if _PLAIN.fullmatch(typed) and _OPERATORS.isdisjoint(alone := typed.split(" ")):
        return alone[:MOST_WORDS]
    return []


def clauses(text: str) -> tuple[Clause, ...]:
    """Take ``text`` apart as ``exact_clauses``, but read negatives alone as words to find."""
    found = exact_clauses(text)
    if all(clause.occur is Occur.NOT for clause in found):
        return tuple(replace(clause, occur=Occur.SHOULD) for clause in found)
    return found


def refusals(text: str) -> tuple[Clause, ...]:
    """Give the clauses of a text that only says what must not be there; none of another text."""
    if "-" not in text and "NOT" not in text:
        return ()
    found = exact_clauses(text)
    return found if all(clause.occur is Occur.NOT for clause in found) else ()


def signed(text: str) -> str:
    """Write only what a text says with a sign or an operator: what must and must not be there."""
    signs = {Occur.MUST: "+", Occur.NOT: "-"}
    if not any(sign in text for sign in ("+", "-", "AND", "NOT")):
        return ""
    kept = [clause for clause in exact_clauses(text) if clause.occur in signs]
    return " ".join(
        f'{signs[clause.occur]}"{clause.text}"'
        if clause.quoted
        else f"{signs[clause.occur]}{clause.text}"
        for clause in kept
    )


def binding(text: str) -> str:
    """Write what holds for every hit, whatever finds it; empty where words may match or not.

    That is what must and what must not be there, and phrases where nothing else is looked for.
    """
    found = exact_clauses(text) if '"' in text else ()
    looked_for = [clause for clause in found if clause.occur is not Occur.NOT]
    if looked_for and all(clause.quoted for clause in looked_for):
        return text
    return signed(text)


class Held(NamedTuple):
    """What holds for every hit, whatever found it."""

    must: tuple[Clause, ...]
    """What it has: words with a plus or AND, and phrases that stand beside no OR."""
    never: tuple[Clause, ...]
    """What it lacks."""


def held(text: str) -> Held:
    """Give the constraints that a text sets; a text without operators sets none."""
    found = exact_clauses(text)
    either = bool(_OR.search(normalise(text)))
    must = (c for c in found if c.occur is Occur.MUST or (_phrase(c) and not either))
    return Held(tuple(must), tuple(c for c in found if c.occur is Occur.NOT))


def _phrase(clause: Clause) -> bool:
    return clause.quoted and clause.occur is Occur.SHOULD


def positive(text: str) -> str:
    """Give the text that is looked for: what must not be there and the operators are left out.

    A text without operators stays as it is, its white space collapsed.
    """
    found = exact_clauses(text)
    if all(clause.occur is Occur.SHOULD and not clause.quoted for clause in found):
        return normalise(text)
    return " ".join(clause.text for clause in found if clause.occur is not Occur.NOT)


def exact_clauses(text: str) -> tuple[Clause, ...]:
    """Take ``text`` apart; text without a letter or digit gives no clause."""
    typed = normalise(text)
    if alone := words_alone(typed):
        few = seldom(alone, _folded)
        return tuple(Clause(Occur.SHOULD, (one,), False, one) for one in few)  # noqa: FBT003
    found: list[Clause] = []
    following: Occur | None = None
    words = 0
    operators = _OPERATORS if typed != typed.upper() else frozenset()
    for piece in _PIECE.finditer(typed):
        plain = piece["plain"]
        if plain in operators and not piece["sign"]:
            if plain == "AND" and found and found[-1].occur is Occur.SHOULD:
                found[-1] = replace(found[-1], occur=Occur.MUST)
            following = {"AND": Occur.MUST, "NOT": Occur.NOT}.get(plain)
            continue
        bare = plain if plain is not None else piece["phrase"]
        spans = words_in(bare)
        kept = spans[: MOST_WORDS - words]
        if not kept:
            continue
        parts = tuple(one[0] for one in kept)
        text_kept = bare if len(kept) == len(spans) else bare[: kept[-1].end()]
        sign = {"+": Occur.MUST, "-": Occur.NOT}.get(piece["sign"] or "")
        found.append(Clause(sign or following or Occur.SHOULD, parts, plain is None, text_kept))
        following = None
        words += len(parts)
        if words >= MOST_WORDS:
            break
    return tuple(seldom(found, _alike))


def seldom(many: Sequence[Item], key: Callable[[Item], Hashable]) -> Sequence[Item]:
    """Leave out what has come ``MOST_REPEATS`` times already, by its key."""
    if len(many) <= MOST_REPEATS:
        return many
    times: Counter[Hashable] = Counter()
    kept = []
    for one in many:
        times[alike := key(one)] += 1
        if times[alike] <= MOST_REPEATS:
            kept.append(one)
    return kept


def _alike(clause: Clause) -> Hashable:
    return clause.occur, clause.quoted, tuple(map(_folded, clause.words))


def _folded(typed: str) -> str:
    """Write a word without case and accents, as an index may hold it."""
    if typed.isascii():
        return typed.casefold()
    return "".join(one for one in normalize("NFKD", typed).casefold() if not combining(one))
