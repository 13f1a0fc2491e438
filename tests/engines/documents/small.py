"""A small collection for the tests of its parts."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from harness.check.subject import DOCUMENTS
from harness.core.errors import BadFile
from harness_engines.stacks.documents import arm, texts
from harness_engines.stacks.documents.arm import DocumentCollection
from harness_engines.stacks.documents.library import (
    TABLES,
    Bm25,
    DocumentSettings,
    Library,
    put,
    read,
    words,
)
from harness_engines.stacks.documents.texts import Cutting, DocumentText, TextPage, of_document

PRO = {
    "tier": "pro",
    "embedder": "all-MiniLM-L6-v2",
    "sparse": "splade-tiny",
    "max_tokens": 64,
    "fusion": "specification",
}
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
REPORT = DocumentText(
    "reports/q3.pdf",
    "q3.pdf",
    "/originals/q3.pdf",
    (
        TextPage(
            1, "Customer retention rose to 94 per cent.\n\nThe board of Ocean Tide Trust agreed."
        ),
        TextPage(2, "Churn fell after quarterly reviews with customers of Ocean Tide Trust."),
    ),
)
SOURCES = (*(of_document(document) for document in DOCUMENTS), REPORT)


def settings(**changed: Any) -> DocumentSettings:  # noqa: ANN401  whatever a setting takes
    return DocumentSettings.model_validate({**PRO, **changed})


@contextmanager
def built(folder: Path, given: DocumentSettings, cache: Path) -> Iterator[DocumentCollection]:
    """Build and open the small collection."""
    folder.mkdir(parents=True)
    arm.build(SOURCES, folder, given, cache, lambda: NOON)
    with arm.opened(folder, given, "Small") as opened:
        yield opened


def library_of(sources: Iterable[DocumentText], cutting: Cutting) -> Library:
    """Take documents into tables, and read them."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        for source in sources:
            put(db, source, cutting, NOON.isoformat())
        return read(db)


def bm25_of(given: Sequence[str]) -> Bm25:
    """Count the words of texts."""
    counted = [Counter(words(text)) for text in given]
    numbers = {word: at for at, word in enumerate(sorted(set().union(*counted)))}
    rows = [
        (
            np.array([numbers[word] for word in one], dtype=np.int32).tobytes(),
            np.array(list(one.values()), dtype=np.int32).tobytes(),
        )
        for one in counted
    ]
    return Bm25.joined(numbers, rows)


def read_file(path: Path, document_id: str) -> DocumentText:
    """Read one file."""
    return texts.source(path, document_id, path.read_bytes())


def read_folder(root: Path) -> tuple[list[DocumentText], dict[str, BadFile]]:
    """Read every file of a known kind, and say of the others why they cannot be."""
    sources, refused = [], {}
    for path in sorted(path for path in root.rglob("*") if path.suffix.lower() in texts.SUFFIXES):
        try:
            sources.append(read_file(path, path.relative_to(root).as_posix()))
        except BadFile as exc:
            refused[path.name] = exc
    return sorted(sources, key=lambda one: one.document_id), refused
