"""Long texts that installed packages carry, each to be found by one line that was taken out of it.

A document is a package's description, a guide or a licence that comes with it, or the reference
page of one source file. That holds its own docstring, then those of its functions, classes and
methods. Texts are read where they are installed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from python_docs.numpydoc import plain
from python_docs.questions import (
    FEWEST_WORDS,
    INSIDE_CAMEL,
    MOST_WORDS,
    UNFIT,
    words,
)

from harness.core.digest import of_bytes
from harness.core.errors import DatasetError
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.store import StrictModel
from harness.corpus.card import Some
from package_texts.parts import Kind, Part, said
from package_texts.reading import Text, texts

SHINGLE = 4
Lines = frozenset[str]
"""Lines by their words, in lower case, one space between."""
MEANT = 1
PARAGRAPH = 200
"""Characters from which on a paragraph that stands twice is repetition and no common phrase."""


class Texts(StrictModel):
    """How the set is made: the table ``[make]`` of its card."""

    characters: Some
    """Shorter documents are left out."""
    queries: Some
    """At most so many of each slice."""


@dataclass(frozen=True, slots=True)
class PackageTexts:
    """The data set."""

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    qrels: Qrels


def read(packages: Iterable[str], settings: Texts) -> PackageTexts:
    """Read the installed packages as the card says.

    A part that stands twice, word for word, is read once, and so is a document most of which
    stands in those before it.

    Raises:
        DatasetError: a package is not installed or cannot be read, or no query is left.
    """
    found = [text for text in _once(texts(packages)) if _long(text, settings.characters)]
    lines = fit(found)
    bodies = {text.doc_id: _body(text, lines) for text in found}
    kept = [text for text in found if len(bodies[text.doc_id]) >= settings.characters]
    left = lines - elsewhere(lines, (bodies[text.doc_id] for text in kept))
    queries: list[Query] = []
    rows: list[Judgement] = []
    for kind, doc_id, part in asked(kept, left, settings.queries):
        query_id = f"{kind}:{doc_id}"
        queries.append(Query(query_id, plain(part.line), (kind,)))
        rows.append(Judgement(query_id, doc_id, MEANT))
    if not rows:
        raise DatasetError("no line of these packages can be a query; name larger ones in the card")
    documents = tuple(_document(text, bodies[text.doc_id]) for text in kept)
    return PackageTexts(documents, tuple(queries), Qrels.of(rows))


def _once(given: Iterable[Text]) -> Iterator[Text]:
    parts: set[str] = set()
    paragraphs: set[str] = set()
    for text in given:
        fresh: list[Part] = []
        for part in text.parts:
            key = " ".join(words(f"{part.line} {part.text}"))
            if key and key not in parts:
                parts.add(key)
                fresh.append(part)
        long = _paragraphs(fresh)
        if sum(map(len, long & paragraphs)) * 2 <= sum(map(len, long)):
            yield text._replace(parts=tuple(fresh))
        paragraphs |= long


def _paragraphs(parts: Iterable[Part]) -> set[str]:
    cut = (piece for part in parts for piece in part.text.split("\n\n"))
    return {" ".join(words(piece)) for piece in cut if len(piece) >= PARAGRAPH}


def _long(text: Text, characters: int) -> bool:
    return sum(len(part.line) + len(part.text) for part in text.parts) >= characters


def _body(text: Text, lines: Lines) -> str:
    shown = (part.whole(with_line=said(part.line) not in lines) for part in text.parts)
    return "\n\n".join(piece for piece in shown if piece)


def _document(text: Text, body: str) -> Document:
    return Document(text.doc_id, text.doc_id, body, {"kind": text.kind, "package": text.package})


def fit(texts: Iterable[Text]) -> Lines:
    """Choose the lines that could be queries."""
    seen: Counter[str] = Counter()
    good: set[str] = set()
    for text in texts:
        for part in text.parts:
            key = said(part.line)
            seen[key] += 1
            if _is_question(part, key):
                good.add(key)
    return frozenset(key for key in good if seen[key] == 1)


def elsewhere(lines: Lines, documents: Iterable[str]) -> Lines:
    """Choose the lines whose words some document holds in a row."""
    starts: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for line in lines:
        asked = tuple(line.split())
        starts.setdefault(asked[:SHINGLE], []).append(asked)
    return frozenset(found for text in documents for found in _held(words(text), starts))


def asked(texts: Iterable[Text], lines: Lines, limit: int) -> Iterator[tuple[Kind, str, Part]]:
    """Choose at most ``limit`` queries of each kind: kind, document, part; by document.

    Which line of a document, and which documents, is decided by the SHA-256 of their words: as
    good as drawn by lot, and the same everywhere.
    """
    drawn: dict[Kind, list[tuple[str, str, Part]]] = {"object": [], "package": []}
    for text in texts:
        for kind, found in drawn.items():
            lots = [
                (of_bytes(key.encode()), part)
                for part in text.parts
                if part.kind == kind and (key := said(part.line)) in lines
            ]
            if lots:
                lot, part = min(lots)
                found.append((lot, text.doc_id, part))
    for kind, found in drawn.items():
        for _, doc_id, part in sorted(sorted(found)[:limit], key=lambda one: one[1]):
            yield kind, doc_id, part


def _is_question(part: Part, key: str) -> bool:
    if not FEWEST_WORDS <= key.count(" ") + 1 <= MOST_WORDS or UNFIT.search(part.line):
        return False
    name = "".join(words(part.bare))
    return name not in _joined(key.split(), len(words(" ".join(INSIDE_CAMEL.split(part.bare)))))


def _joined(asked_for: Sequence[str], most: int) -> Iterator[str]:
    """Join the words in a row, up to ``most`` and two at least: names are written as one or two."""
    for length in range(1, max(2, most) + 1):
        for at in range(len(asked_for) - length + 1):
            yield "".join(asked_for[at : at + length])


def _held(
    found: Sequence[str], starts: Mapping[tuple[str, ...], list[tuple[str, ...]]]
) -> Iterator[str]:
    for at in range(len(found) - SHINGLE + 1):
        for line in starts.get(tuple(found[at : at + SHINGLE]), ()):
            if tuple(found[at : at + len(line)]) == line:
                yield " ".join(line)
