"""Long texts that installed packages carry, each to be found by one line that was taken out of it.

A document is a package's description, a guide or a licence that comes with it, or the reference
page of one source file. That holds its own docstring, then those of its functions, classes and
methods. Texts are read where they are installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.collections.package_texts.parts import Part, said
from harness.collections.package_texts.questions import Lines, asked, elsewhere, fit
from harness.collections.package_texts.reading import Text, distribution, texts
from harness.collections.python_docs.numpydoc import plain
from harness.collections.python_docs.questions import words
from harness.core.errors import DatasetError
from harness.core.qrels import Qrels
from harness.core.records import Document, Judgement, Query
from harness.corpus.card import Texts

MEANT = 1
PARAGRAPH = 200
"""Characters from which on a paragraph that stands twice is repetition and no common phrase."""


@dataclass(frozen=True, slots=True)
class PackageTexts:
    """The data set."""

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    qrels: Qrels


def read(settings: Texts) -> PackageTexts:
    """Read the installed packages as the card says.

    A part that stands twice, word for word, is read once, and so is a document most of which
    stands in those before it.

    Raises:
        DatasetError: a package is not installed or cannot be read, or no query is left.
    """
    found = [text for text in _once(texts(settings.packages)) if _long(text, settings.characters)]
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


def versions(settings: Texts) -> dict[str, str]:
    """Installed version of each package that the card names.

    Raises:
        DatasetError: a package is not installed.
    """
    return {name: distribution(name).version for name in sorted(settings.packages)}


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
