"""Stage 1: the chunks that share words with the query, by one of three engines."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.lexical.terms import folded, parts
from engines.lexical.terms import word as as_word
from engines.stacks.documents.library import Library
from harness.core.errors import IndexNotReady
from harness.core.files import replacing, write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file

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
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'"})


@cache
def _any_word() -> re.Pattern[str]:
    return re.compile(rf"(?:{as_word().pattern})(?:'(?:{as_word().pattern}))*")


def words(text: str) -> list[str]:
    """Lower-case, split at what is not a letter or digit, drop stop words and single characters.

    An apostrophe within a word stays, in one spelling; one at its edge is a quotation mark. Text
    that is not ASCII is folded, and runs without spaces are pairs of letters, as in every word
    index. A word that a line break parts counts whole, and so do its parts.
    """
    whole = (first + rest for first, rest in _BROKEN.findall(text) if rest.islower())
    typed = folded(" ".join([text, *whole]).translate(_APOSTROPHES)).lower()
    found = _WORD.findall(typed)
    if not typed.isascii():
        found = [part for one in _any_word().findall(typed) for part in parts(one)]
    return [one for one in found if _counts(one) and one not in STOP_WORDS]


def unbroken(text: str) -> str:
    """Join words that a hyphen parts at the end of a line."""
    return _BROKEN.sub(_joined, text)


def _joined(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}\n" if found[2].islower() else found[0]


def _counts(one: str) -> bool:
    """Tell of a single character whether it is a word: a letter of a script without case is."""
    return len(one) > 1 or (not one.isascii() and not one.isdigit() and one.lower() == one.upper())


K1, B = 1.2, 0.75
SCORE_DIGITS = 9
"""Sums differ below that by their order."""
POSTINGS, VOCABULARY = "bm25.npz", "bm25.json"

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Bm25:
    """Which chunks have a word, how often, and how long they are.

    The postings of word n lie from ``offsets[n]`` up to ``offsets[n + 1]``, chunks ascending.
    """

    numbers: dict[str, int]
    """Number of each word, in alphabetical order."""
    offsets: Ints
    chunks: NDArray[np.int32]
    counts: NDArray[np.int32]
    lengths: Ints
    """Words in each chunk, shape (chunks,)."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Bm25:
        """Count the words of all chunks, in their order."""
        postings: dict[str, list[tuple[int, int]]] = {}
        lengths: list[int] = []
        for chunk, text in enumerate(texts):
            found = words(text)
            lengths.append(len(found))
            for word, count in Counter(found).items():
                postings.setdefault(word, []).append((chunk, count))
        numbers = {word: number for number, word in enumerate(sorted(postings))}
        flat = np.array([pair for word in numbers for pair in postings[word]], dtype=np.int32)
        flat = flat.reshape(-1, 2)
        sizes = [0, *(len(postings[word]) for word in numbers)]
        return cls(
            numbers,
            np.cumsum(sizes, dtype=np.int64),
            np.ascontiguousarray(flat[:, 0]),
            np.ascontiguousarray(flat[:, 1]),
            np.array(lengths, dtype=np.int64),
        )

    @classmethod
    def joined(cls, numbers: dict[str, int], chunks: Sequence[tuple[bytes, bytes, int]]) -> Bm25:
        """Put chunks together that were counted one by one.

        ``numbers`` are those of words, below the number of words plus the gaps of words that are
        gone. A chunk has the numbers of its words and their counts, 32 bits each, and its length.
        """
        words_of = [np.frombuffer(one[0], dtype=np.int32) for one in chunks]
        nothing = np.zeros(0, dtype=np.int32)
        terms = np.concatenate([nothing, *words_of])
        counts = np.concatenate([nothing, *(np.frombuffer(c[1], dtype=np.int32) for c in chunks)])
        sizes = np.array([len(one) for one in words_of], dtype=np.int64)
        of = np.repeat(np.arange(len(chunks), dtype=np.int32), sizes)
        order = np.argsort(terms, kind="stable")
        most = max(numbers.values(), default=-1) + 1
        each = np.bincount(terms, minlength=most) if len(terms) else np.zeros(most, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(each)]).astype(np.int64)
        lengths = np.array([one[2] for one in chunks], dtype=np.int64)
        return cls(numbers, offsets, of[order], counts[order], lengths)

    def search(self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None) -> Ints:
        """Find the ``limit`` best chunks that share a word with ``text``, best first.

        Equal scores go by the chunk's number. ``allowed``, shape (chunks,), says which may be
        found; None allows all. What a word weighs is counted over all chunks either way.
        """
        scores = self.scores(text)
        if allowed is not None:
            scores[~allowed] = 0.0
        return best(scores, limit)

    def scores(self, text: str) -> NDArray[np.float64]:
        """Score every chunk, shape (chunks,); a word that the query has twice counts twice."""
        scores = np.zeros(len(self.lengths))
        mean = self.lengths.mean() if len(self.lengths) else 1.0
        for word, times in Counter(words(text)).items():
            number = self.numbers.get(word)
            if number is None:
                continue
            postings = slice(self.offsets[number], self.offsets[number + 1])
            chunks, counts = self.chunks[postings], self.counts[postings]
            weight = np.log1p((len(scores) - len(chunks) + 0.5) / (len(chunks) + 0.5))
            norm = K1 * (1 - B + B * self.lengths[chunks] / mean)
            scores[chunks] += times * weight * counts * (K1 + 1) / (counts + norm)
        return np.round(scores, SCORE_DIGITS)

    def write(self, folder: Path) -> None:
        """Write the index into two files."""
        with replacing(folder / POSTINGS) as beside, beside.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                offsets=self.offsets,
                chunks=self.chunks,
                counts=self.counts,
                lengths=self.lengths,
            )
        write_text(folder / VOCABULARY, json.dumps(list(self.numbers)))

    @classmethod
    def open(cls, folder: Path) -> Bm25:
        """Read what ``write`` wrote.

        Raises:
            IndexNotReady: a file is missing or broken, or the two do not fit each other.
        """
        try:
            vocabulary = json_file(folder / VOCABULARY, most=MAX_INDEX_BYTES)
            with (folder / POSTINGS).open("rb") as file, np.load(file) as part:
                found = cls(
                    {word: number for number, word in enumerate(vocabulary)},
                    *(part[name] for name in ("offsets", "chunks", "counts", "lengths")),
                )
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as exc:
            raise IndexNotReady(f"{folder}: {exc}. Build it again: harness index") from exc
        sizes = {len(found.chunks), len(found.counts), int(found.offsets[-1])}
        if len(found.numbers) != len(found.offsets) - 1 or len(sizes) > 1:
            raise IndexNotReady(
                f"{folder}: {POSTINGS} and {VOCABULARY} do not fit. Build it again: harness index"
            )
        return found


def best(scores: NDArray[np.float64], limit: int) -> Ints:
    """Positions of the ``limit`` highest scores above 0, best first, equal ones by position."""
    found = np.flatnonzero(scores > 0)
    if len(found) > limit:
        kept = scores[found]
        edge = np.partition(kept, len(kept) - limit)[len(kept) - limit]
        found = found[kept >= edge]
    order = np.lexsort((found, -scores[found]))[:limit]
    return found[order]


FOLDER = "recall"


class Recall(Protocol):
    """Finds candidates."""

    def search(
        self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Positions of at most ``limit`` chunks, best first, equal ones by position.

        ``allowed``, shape (chunks,), says which may be found; None allows all.
        """
        ...


def build(library: Library, folder: Path) -> None:
    """Index the chunks of a library into ``folder``."""
    made = folder / FOLDER
    made.mkdir()
    Bm25.of(chunk.text for chunk in library.chunks).write(made)


def opened(library: Library, folder: Path) -> Recall:
    """Open what ``build`` wrote.

    Raises:
        IndexNotReady: it is missing, broken, or of other chunks.
    """
    index = Bm25.open(folder / FOLDER)
    if len(index.lengths) != len(library.chunks):
        raise IndexNotReady(
            f"{folder / FOLDER}: holds {len(index.lengths)} chunks where there are"
            f" {len(library.chunks)}. Build it again: harness index"
        )
    return index
