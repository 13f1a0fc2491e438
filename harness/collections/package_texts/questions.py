"""Which line of which document could be a query for it.

A line is the summary of an object or of a package. It could be a query if it

* is a phrase of 4 to 30 words: no placeholder that a package fills in when it is imported, and no
  colon that leads on to more,
* stands over one part only, compared without case and punctuation, and
* does not name what it stands over: the object, or the package.

Every such line is taken out of the texts, asked or not, so that no document keeps what another one
had to give. Of these lines those become queries that no document holds anywhere else, word for
word. One of each kind is taken in a document at most, so that no large document counts for many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.collections.package_texts.parts import Kind, Part, said
from harness.collections.package_texts.reading import Text
from harness.collections.python_docs.questions import (
    FEWEST_WORDS,
    INSIDE_CAMEL,
    MOST_WORDS,
    UNFIT,
    words,
)
from harness.core.digest import of_bytes

SHINGLE = 4
Lines = frozenset[str]
"""Lines by their words, in lower case, one space between."""


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
