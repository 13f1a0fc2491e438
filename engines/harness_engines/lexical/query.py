"""Titles that a query names, their weight, and the last try of a query without hits."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from harness_engines.contract import StackSettings
from harness_engines.lexical import terms
from harness_engines.lexical.grammar import exact_clauses

LIKE = "like"
"""Names this try in an answer."""


@dataclass(frozen=True, slots=True)
class Like:
    """Looks for every word and phrase of a query in a text, and for what it refuses.

    Parts of words count, in any case and however composed: a piece of a name is found this way.
    """

    wanted: tuple[re.Pattern[str], ...]
    never: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, query: str) -> "Like":
        """Read a query; one without a letter or digit is looked for as it was typed."""
        clauses = exact_clauses(query)
        if not clauses:
            typed = terms.normalise(query)
            return cls((_pattern(typed),) if typed else (), ())
        refused = tuple(_pattern(one.text) for one in clauses if one.occur is terms.Occur.NOT)
        return cls(
            tuple(_pattern(c.text) for c in clauses if c.occur is not terms.Occur.NOT), refused
        )

    def has(self, text: str) -> bool:
        """Return whether a text contains all that is wanted and nothing that is refused."""
        form = terms.folded(text)
        wanted = bool(self.wanted) and all(one.search(form) for one in self.wanted)
        return wanted and not any(one.search(form) for one in self.never)

    def at(self, text: str) -> int:
        """Return the place of the first thing wanted; 0 where it is not there."""
        if not self.wanted:
            return 0
        normal = terms.Normal.of(text)
        found = self.wanted[0].search(normal.text)
        return normal.span(*found.span())[0] if found else 0


def _pattern(typed: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, terms.folded(typed).split())), re.IGNORECASE)


def title_names(titles: Iterable[str]) -> frozenset[str]:
    """Return the words of each joined name, lower-cased, and of its ends of two or more."""
    found = set()
    for title in titles:
        for name in terms.identifiers(title):
            words = [one[0] for one in terms.words_in(name)]
            found |= {" ".join(words[at:]) for at in range(len(words) - 1)}
    return frozenset(found)


def joined(wanted: Sequence[terms.Clause], known: frozenset[str]) -> str:
    """Write words that are a name of ``known``, without signs, as one name; empty for others."""
    if len(wanted) < 2 or any(c.quoted or c.occur is not terms.Occur.SHOULD for c in wanted):  # noqa: PLR2004  one word is a name anyway
        return ""
    words = [word for clause in wanted for word in clause.words]
    return "_".join(words) if " ".join(words).lower() in known else ""


TITLE, TEXT = "title", "text"


class Weighed(StackSettings):
    """Settings that weigh a title against a text."""

    bm25_over: Literal["document", "fields"]
    """One BM25 over the whole document, its title counted ``title_weight`` times, as FTS5 weighs
    columns; or one over each field, added up with the weights."""
    title_weight: float = Field(gt=0)
    text_weight: float = Field(gt=0)

    @model_validator(mode="after")
    def _title_is_repeated(self) -> Self:
        whole = self.title_weight.is_integer() and self.text_weight == 1
        if self.bm25_over == "document" and not whole:
            raise ValueError("bm25_over = 'document' needs a whole title_weight and text_weight 1")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each field that is searched."""
        if self.bm25_over == "document":
            return {TEXT: 1.0}
        return {TITLE: self.title_weight, TEXT: self.text_weight}

    def indexed(self, title: str, text: str) -> dict[str, list[str]]:
        """Return the texts of each field of a document; no phrase reaches from one to the next."""
        if self.bm25_over == "document":
            return {TEXT: [title] * int(self.title_weight) + [text]}
        return {TITLE: [title], TEXT: [text]}
