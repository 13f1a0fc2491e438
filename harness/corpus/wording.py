"""What a text says, whatever its word forms, their order and the words that carry no content."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

VERSION = 1
"""Raised where two texts may become one wording, or two."""
WORD = re.compile(r"\w+")
TOKEN = re.compile(r"\w+(?:[._]+\w+)*[+#]*")
"""A word, or a name with its inner points: ``json.loads``, ``C++``, ``3.5``."""
GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")
SHORTENED = re.compile(r"n['\u2019]t\b")
POSSESSIVE = re.compile(r"['\u2019]s\b")
CONTENTLESS = (
    "a an the of to for in on at by with from as into and or",
    "is are was were be been being am do does did done can could should would will shall may",
    "might must have has had i me my we our you your he his she her it its",
    "they them their this that these those there here what which how",
    "please help show need want way ways steps step example examples using use used some any",
    "der die das ein eine und le la les un une et el los",
)
"""Articles, auxiliaries, pronouns and the like; ``when``, ``where`` and ``who`` are content."""
EMPTY = frozenset(word for words in CONTENTLESS for word in WORD.findall(words))
NEGATIVE = (
    "not no non never without cannot nor neither none",
    "nicht kein keine keinen ohne nie pas sans jamais sin nunca",
)
NEGATIONS = frozenset(word for words in NEGATIVE for word in WORD.findall(words))
SHORT = 3
"""Letters of the longest word that is never cut, and of the shortest stem."""
NAMED = re.compile(r"[\d._+#]")
VOWEL = re.compile(r"[aeiouy]")
SPELLINGS = (
    (re.compile(r"our(?=$|s$|ed$|ing$|al|ful|ite)"), "or"),
    (re.compile(r"(?<=[a-z]{3})([iy])[sz](?=e$|es$|ed$|er$|ers$|ing$|ation|ations)"), r"\1s"),
    (re.compile(r"^(cent|theat|met|fib|lit)re(?=$|s$)"), r"\1er"),
    (re.compile(r"^grey"), "gray"),
)
"""British and American spellings, written in one way."""


class Wording(NamedTuple):
    """The words of a text that carry its content."""

    words: frozenset[str]
    """Stems, and the names."""
    names: tuple[str, ...]
    """Numbers, models, identifiers and single letters, in their order."""
    negated: bool
    proper: frozenset[str]
    """Stems of words that begin with a capital letter where a sentence does not."""

    @property
    def signature(self) -> str:
        """What two texts of the same words have in common, whatever their capital letters."""
        return "\t".join((" ".join(sorted(self.words)), " ".join(self.names), "-" * self.negated))

    def like(self, other: Wording) -> float:
        """Jaccard of the words."""
        return len(self.words & other.words) / len(self.words | other.words)

    def parted(self, other: Wording) -> bool:
        """Tell whether the two differ in a number, a name or a negation."""
        return (
            (self.names, self.negated) != (other.names, other.negated)
            or not self.proper <= other.words
            or not other.proper <= self.words
        )


def wording(text: str) -> Wording:
    """Read the words of a text; where none carries content, all of them do."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    plain = GROUPED.sub("", POSSESSIVE.sub("", SHORTENED.sub(" not", plain)))
    tokens = TOKEN.findall(plain)
    folded = [token.casefold() for token in tokens]
    names = tuple(
        word for word in folded if word not in EMPTY and (len(word) == 1 or NAMED.search(word))
    )
    stems = {
        stem(word)
        for word in folded
        if word not in EMPTY and word not in NEGATIONS and word not in names
    }
    proper = {
        stem(word)
        for token, word in zip(tokens[1:], folded[1:], strict=True)
        if token[0].isupper() and word not in EMPTY and word not in names
    }
    words = frozenset(stems.union(names)) or frozenset(folded) or frozenset([text.strip()])
    negated = not NEGATIONS.isdisjoint(folded)
    return Wording(words, names, negated, frozenset(proper))


def normalised(text: str) -> str:
    """Leave the words of a text, caseless; the whole text where it has none."""
    return " ".join(WORD.findall(text.casefold())) or text.strip()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Take the inflection off an English word: plurals, -ed and -ing; its meaning stays."""
    for spelling, one in SPELLINGS:
        word = spelling.sub(one, word)
    if len(word) <= SHORT or not word.isascii():
        return word
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= SHORT and VOWEL.search(rest) and rest[-1] != "e":
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    word = word.removesuffix("e") if len(word) > SHORT else word
    return word[:-1] + "i" if word.endswith("y") and len(word) > SHORT else word
