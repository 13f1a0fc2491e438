"""Stage 1: the chunks that share words with the query, by BM25."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness_engines.lexical.terms import elided_words, folded, parts, sign_names
from harness_engines.lexical.terms import word as as_word

STOP_WORDS = frozenset([
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is"),
    *("it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there"),
    *("these", "they", "this", "to", "was", "will", "with"),
])
"""The specification names none; these 33 are the ones that Lucene has always left out."""
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BROKEN = re.compile(r"(?<![^\W\d_])([^\W\d_]++)[-\xad\u2010][ \t]*+\r?\n[ \t]*+([^\W\d_]++)")
"""A word that a line break parts. It begins where a word does and never goes back, so that a
megabyte without a space takes no longer than it is."""
_BEGUN = re.compile(r"(?<![^\s(])([^\W_]++)\*(?![^\s)])")
"""The beginning of a word, ``conf*``."""
_DOTTED = re.compile(r"(?<![^\W_])[^\W_]++(?:[.@][^\W_]++){2,}+")
"""A version, a host or an address: a word beside its parts, and no number such as 0.5."""
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'"})


@cache
def _any_word() -> re.Pattern[str]:
    return re.compile(rf"(?:{as_word().pattern})(?:'(?:{as_word().pattern}))*")


def words(text: str) -> list[str]:
    """Lower-case, split at what is not a letter or digit, drop stop words and single characters.

    An apostrophe within a word stays, in one spelling; one at its edge is a quotation mark. Text
    that is not ASCII is folded, and runs without spaces are pairs of letters, as in every word
    index. A word that a line break parts counts whole, and so do its parts. Names with a sign, such
    as ``C#``, and the word of ``l'avion`` count besides.
    """
    whole = (first + rest for first, rest in _BROKEN.findall(text) if rest.islower())
    typed = folded(" ".join([text, *whole]).translate(_APOSTROPHES)).lower()
    found = _WORD.findall(typed)
    if not typed.isascii():
        found = [part for one in _any_word().findall(typed) for part in parts(one)]
    found += [*sign_names(typed), *_DOTTED.findall(typed), *elided_words(found)]
    return [one for one in found if _counts(one) and one not in STOP_WORDS]


def unbroken(text: str) -> str:
    """Join words that a hyphen parts at the end of a line."""
    return _BROKEN.sub(
        lambda found: f"{found[1]}{found[2]}\n" if found[2].islower() else found[0], text
    )


def _counts(one: str) -> bool:
    """Return of a single character whether it is a word: a letter of a script without case is."""
    return len(one) > 1 or (not one.isascii() and not one.isdigit() and one.lower() == one.upper())


K1, B = 1.2, 0.75
SCORE_DIGITS = 9
"""Sums differ below that by their order."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Bm25:
    """Which chunks have a word, how often, and how long they are.

    The postings of word n lie from ``offsets[n]`` up to ``offsets[n + 1]``, chunks ascending.
    """

    numbers: dict[str, int]
    """Number of each word."""
    offsets: Ints
    chunks: NDArray[np.int32]
    counts: NDArray[np.int32]
    lengths: Ints
    """Words in each chunk, shape (chunks,)."""

    @classmethod
    def joined(cls, numbers: dict[str, int], chunks: Sequence[tuple[bytes, bytes]]) -> "Bm25":
        """Join chunks that were counted one by one.

        ``numbers`` are those of words, below the number of words plus the gaps of words that are
        gone. A chunk has the numbers of its words and their counts, 32 bits each.
        """
        words_of = [np.frombuffer(one[0], dtype=np.int32) for one in chunks]
        nothing = np.zeros(0, dtype=np.int32)
        terms = np.concatenate([nothing, *words_of])
        counts_of = [np.frombuffer(one[1], dtype=np.int32) for one in chunks]
        counts = np.concatenate([nothing, *counts_of])
        sizes = np.array([len(one) for one in words_of], dtype=np.int64)
        of = np.repeat(np.arange(len(chunks), dtype=np.int32), sizes)
        order = np.argsort(terms, kind="stable")
        most = max(numbers.values(), default=-1) + 1
        each = np.bincount(terms, minlength=most) if len(terms) else np.zeros(most, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(each)]).astype(np.int64)
        lengths = np.array([one.sum() for one in counts_of], dtype=np.int64)
        return cls(numbers, offsets, of[order], counts[order], lengths)

    def search(self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None) -> Ints:
        """Find the ``limit`` best chunks that share a word with ``text``, best first."""
        scores = self.scores(text)
        if allowed is not None:
            scores[~allowed] = 0.0
        return best(scores, limit)

    def scores(self, text: str) -> NDArray[np.float64]:
        """Score every chunk, shape (chunks,); a word that the query has twice counts twice."""
        scores = np.zeros(len(self.lengths))
        mean = self.lengths.mean() if len(self.lengths) else 1.0

        def beginning(start: re.Match[str]) -> str:
            """Write the words of the chunks that begin so."""
            begins = folded(start[1]).lower()
            return " ".join(word for word in self.numbers if word.startswith(begins))

        for word, times in Counter(words(_BEGUN.sub(beginning, text))).items():
            number = self.numbers.get(word)
            if number is None:
                continue
            postings = slice(self.offsets[number], self.offsets[number + 1])
            chunks, counts = self.chunks[postings], self.counts[postings]
            weight = np.log1p((len(scores) - len(chunks) + 0.5) / (len(chunks) + 0.5))
            norm = K1 * (1 - B + B * self.lengths[chunks] / mean)
            scores[chunks] += times * weight * counts * (K1 + 1) / (counts + norm)
        return np.round(scores, SCORE_DIGITS)


def best(scores: NDArray[np.float64], limit: int) -> Ints:
    """Positions of the ``limit`` highest scores above 0, best first, equal ones by position."""
    found = np.flatnonzero(scores > 0)
    if len(found) > limit:
        kept = scores[found]
        edge = np.partition(kept, len(kept) - limit)[len(kept) - limit]
        found = found[kept >= edge]
    order = np.lexsort((found, -scores[found]))[:limit]
    return found[order]
