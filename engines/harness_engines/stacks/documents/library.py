"""Documents and chunks of an index: their words by BM25, their entities, and their tables."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from sqlite3 import Connection
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from harness_engines.contract import StackSettings
from harness_engines.lexical.terms import elided_words, folded, parts, sign_names
from harness_engines.lexical.terms import word as as_word
from harness_engines.stacks.documents.texts import (
    Cutting,
    DocumentChunk,
    DocumentText,
    NumberSpan,
    TextPage,
    chunks,
    joined,
    starts,
)
from harness_engines.vector.scan import nearest

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


MOST_CHUNKS = 64
"""An entity of more chunks says what the collection is about, and nothing of a chunk."""
MOST_OF_A_CHUNK = 16
"""Of the entities of a chunk the rarest count."""
LONGEST = 80
_ENTITY = re.compile(
    r"\b(?:"
    r"[A-Z][a-z]+(?:[ ](?:of[ ])?[A-Z][a-z]+){1,4}"
    r"|[A-Z][A-Z0-9]+(?:-[A-Z0-9]+)*"
    r"|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+"
    r"|[a-z]+[A-Z][A-Za-z0-9]*"
    r"|[A-Z][a-z]+[A-Z][A-Za-z0-9]*"
    r")\b"
)


def entities(text: str) -> frozenset[str]:
    """Entities of a text, lower-cased."""
    found = (match[0].lower() for match in _ENTITY.finditer(text))
    return frozenset(entity for entity in found if len(entity) <= LONGEST)


LEAST_ALIKE = 0.5
"""Cosine below which two chunks are not neighbours."""


class Edge(NamedTuple):
    """The strongest edge that leads to a chunk that was not found."""

    row: int
    weight: float
    """Of shared entities in (0.5, 1], of likeness alone up to 0.5; not a score of the query."""
    shared: tuple[str, ...]
    """Entities shared with a chunk that was found; none where the two are only alike."""


@dataclass(frozen=True, slots=True)
class ChunkGraph:
    """Edges between the chunks of a collection; they are followed and not stored."""

    chunks: dict[str, tuple[int, ...]]
    """Positions, ascending, of the chunks of each entity that connects 2 to ``MOST_CHUNKS``."""
    of_chunk: dict[int, tuple[str, ...]]
    """The entities of a chunk, the rarest first, at most ``MOST_OF_A_CHUNK``."""
    total: int
    """Chunks of the collection."""
    vectors: NDArray[np.float16] | None
    """Unit vectors, shape (chunks, dimension); None leaves edges by likeness out."""

    @classmethod
    def of(
        cls, of_chunks: Sequence[Collection[str]], vectors: NDArray[np.float16] | None
    ) -> "ChunkGraph":
        """Assemble what each chunk names, in the order of the chunks."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, named in enumerate(of_chunks):
            for entity in named:
                found[entity].append(number)
        connecting = {e: tuple(at) for e, at in found.items() if 1 < len(at) <= MOST_CHUNKS}
        of_chunk: dict[int, list[str]] = defaultdict(list)
        for entity in sorted(connecting, key=lambda e: (len(connecting[e]), e)):
            for number in connecting[entity]:
                if len(of_chunk[number]) < MOST_OF_A_CHUNK:
                    of_chunk[number].append(entity)
        own = {number: tuple(some) for number, some in of_chunk.items()}
        return cls(connecting, own, len(of_chunks), vectors)

    def expand(self, found: Sequence[int], most: int) -> list[Edge]:
        """Follow the edges of ``found`` to at most ``most`` chunks that are not among them."""
        if most < 1:
            return []
        primary = frozenset(found)
        strongest: dict[int, Edge] = {}
        for row in dict.fromkeys(found):
            for edge in (*self._naming(row, primary, most), *self._alike(row, primary, most)):
                known = strongest.get(edge.row)
                if known is None or (edge.weight, edge.shared) > (known.weight, known.shared):
                    strongest[edge.row] = edge
        return sorted(strongest.values(), key=_strongest_first)[:most]

    def _naming(self, row: int, primary: frozenset[int], most: int) -> list[Edge]:
        """Edges by entities: how many of a chunk's another has, weighed by their rarity."""
        own = self.of_chunk.get(row, ())
        weights = {entity: math.log(self.total / len(self.chunks[entity])) for entity in own}
        whole = sum(weights.values())
        if whole <= 0:
            return []
        shared: dict[int, list[str]] = {}
        for entity in own:
            for other in self.chunks[entity]:
                if other not in primary:
                    shared.setdefault(other, []).append(entity)
        edges = []
        for other, some in shared.items():
            share = sum(weights[entity] for entity in some) / whole
            if share > 0:
                weight = min(1.0, round((1 + share) / 2, 6))
                edges.append(Edge(other, weight, tuple(some)))
        return sorted(edges, key=_strongest_first)[:most]

    def _alike(self, row: int, primary: frozenset[int], most: int) -> list[Edge]:
        """Edges by likeness: the nearest chunks, by cosine."""
        if self.vectors is None:
            return []
        query = np.asarray(self.vectors[row], dtype=np.float32)
        top = nearest(self.vectors, query, min(len(self.vectors), most + len(primary)))
        pairs = zip(top.positions.tolist(), top.scores.tolist(), strict=True)
        edges = [
            Edge(other, min(1.0, cosine) / 2, ())
            for other, cosine in pairs
            if cosine >= LEAST_ALIKE and other not in primary
        ]
        return edges[:most]


def _strongest_first(edge: Edge) -> tuple[float, int]:
    return -edge.weight, edge.row


class DocumentSettings(StackSettings):
    """The specification's own choices, and those that stand beside them."""

    tier: Literal["free", "pro"]
    embedder: str
    sparse: str
    max_tokens: int = Field(ge=8, le=512)
    fusion: Literal["specification", "rank"]
    recall_weight: float = Field(default=0.0, ge=0.0)
    chunk_characters: int = Field(default=2000, ge=20)
    chunk_overlap: int = Field(default=200, ge=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if 2 * self.chunk_overlap >= self.chunk_characters:
            raise ValueError("chunk_overlap: must be less than half of chunk_characters")
        if self.tier == "pro" and not self.embedder:
            raise ValueError("embedder: the tier pro reranks by its tokens and needs one")
        if self.recall_weight and self.fusion != "rank":
            raise ValueError('recall_weight: counts only where fusion is "rank"')
        return self

    @property
    def cutting(self) -> Cutting:
        """Sizes of chunks."""
        return Cutting(self.chunk_characters, self.chunk_overlap)


@dataclass(frozen=True)
class Library:
    """What can be found and cited. Chunks come in the order of their ids."""

    sources: dict[str, DocumentText]
    """By document id."""
    chunks: tuple[DocumentChunk, ...]
    words: Bm25
    named: tuple[tuple[str, ...], ...]
    """Entities of each chunk."""
    ingested: Mapping[str, str]
    """When each document was read and cut, in UTC as ISO 8601."""

    @cached_property
    def texts(self) -> Sequence[str]:
        """Texts of the chunks."""
        return [chunk.text for chunk in self.chunks]

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """Position of each chunk, by its document and its index there."""
        return {(one.source.document_id, one.index): at for at, one in enumerate(self.chunks)}

    def around(self, chunk: DocumentChunk) -> tuple[str, str]:
        """Return what the chunks before and after add to a chunk; empty where there is none."""
        start, end = ends(chunk)
        before, after = self._beside(chunk, -1), self._beside(chunk, 1)
        return (
            before.text[: max(0, start - ends(before)[0])].rstrip() if before else "",
            after.text[max(0, end - ends(after)[0]) :].lstrip() if after else "",
        )

    def _beside(self, chunk: DocumentChunk, step: int) -> DocumentChunk | None:
        number = self.numbers.get((chunk.source.document_id, chunk.index + step))
        return None if number is None else self.chunks[number]


def ends(chunk: DocumentChunk) -> tuple[int, int]:
    """Return where a chunk begins and ends in the text of its document's ``joined`` pages."""
    pages = chunk.source.pages
    begins = dict(zip((page.number for page in pages), starts(pages), strict=True))
    last = chunk.page if chunk.page_end is None else chunk.page_end
    return begins[chunk.page] + chunk.char_start, begins[last] + chunk.char_end


TABLES = """
CREATE TABLE source (path TEXT PRIMARY KEY, name TEXT NOT NULL, place TEXT NOT NULL,
  ingested_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE page (path TEXT NOT NULL, at INTEGER NOT NULL, number INTEGER, text TEXT NOT NULL,
  PRIMARY KEY (path, at));
CREATE TABLE chunk (path TEXT NOT NULL, chunk_index INTEGER NOT NULL, place TEXT NOT NULL,
  terms BLOB NOT NULL, counts BLOB NOT NULL, named TEXT NOT NULL,
  PRIMARY KEY (path, chunk_index));
CREATE TABLE word (id INTEGER PRIMARY KEY, word TEXT UNIQUE NOT NULL);
"""
NUMBERS = "SELECT word, id FROM word WHERE word IN (SELECT value FROM json_each(?))"


PLACE = ("page", "page_end", "paragraphs", "lines", "char_start", "char_end")
"""What is kept of the place of a chunk, beside its document and number."""


def put(db: Connection, source: DocumentText, cutting: Cutting, when: str) -> None:
    """Cut a document, and take in its pages, and of each chunk its place, words and entities."""
    path = source.document_id
    db.execute("INSERT INTO source VALUES (?, ?, ?, ?)", (path, source.name, source.path, when))
    pages = ((path, at, *page) for at, page in enumerate(source.pages))
    db.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", pages)
    for chunk in chunks(source, cutting):
        counted = Counter(words(chunk.text))
        new = ((word,) for word in counted)
        db.executemany("INSERT OR IGNORE INTO word (word) VALUES (?)", new)
        numbers = dict(db.execute(NUMBERS, (json.dumps(list(counted)),)).fetchall())
        row = (
            *(path, chunk.index, json.dumps([getattr(chunk, name) for name in PLACE])),
            np.array([numbers[word] for word in counted], dtype=np.int32).tobytes(),
            np.array(list(counted.values()), dtype=np.int32).tobytes(),
            json.dumps(sorted(entities(chunk.text))),
        )
        db.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?)", row)


def drop(db: Connection, path: str) -> None:
    """Delete what was made of a document."""
    for table in ("source", "page", "chunk"):
        db.execute(f"DELETE FROM {table} WHERE path = ?", (path,))  # noqa: S608  our own names


def read(db: Connection) -> Library:
    """Read what ``put`` took in, by the ids of chunks."""
    pages: dict[str, list[TextPage]] = {}
    for path, number, text in db.execute("SELECT path, number, text FROM page ORDER BY path, at"):
        pages.setdefault(path, []).append(TextPage(number, text))
    asked = "SELECT path, name, place, ingested_at FROM source ORDER BY path"
    about = db.execute(asked).fetchall()
    sources = {
        path: DocumentText(path, name, place, tuple(pages.get(path, ())))
        for path, name, place, _ in about
    }
    texts = {path: joined(source.pages) for path, source in sources.items()}
    rows = db.execute("SELECT path, chunk_index, place, terms, counts, named FROM chunk").fetchall()
    made = []
    for path, index, said, *counted in rows:
        at = dict(zip(PLACE, json.loads(said), strict=True))
        spans = {name: NumberSpan(*at[name]) for name in ("paragraphs", "lines")}
        placed = DocumentChunk(sources[path], index, "", **at | spans)
        made.append((replace(placed, text=texts[path][slice(*ends(placed))]), *counted))
    made.sort(key=lambda one: one[0].id)
    numbers = dict(db.execute("SELECT word, id FROM word").fetchall())
    return Library(
        sources,
        tuple(one[0] for one in made),
        Bm25.joined(numbers, [(terms, counts) for _, terms, counts, _ in made]),
        tuple(tuple(json.loads(one[3])) for one in made),
        {row[0]: row[3] for row in about},
    )
