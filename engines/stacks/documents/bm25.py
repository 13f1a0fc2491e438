"""BM25 over chunks, with an inverted index (specification 004, section 3).

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009. The
specification leaves the weight of a word open. It is ln(1 + (N - n + 0.5) / (n + 0.5)), as in
Lucene, which is above 0 also for a word that most chunks have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engines.stacks.documents.words import words
from harness.core.errors import IndexNotReady
from harness.core.files import replacing, write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file

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
