"""What is searched: texts with a name, whole or in pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from harness.core.records import Document

Extraction = Literal["Native"]
"""How a text came out of its file. Nothing here reads pictures of text, so there is one way."""
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


class Page(NamedTuple):
    """One stretch of text that chunks do not leave."""

    number: int | None
    """From 1; None where a file has no pages."""
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """One document as it was read."""

    document_id: str
    name: str
    path: str
    pages: tuple[Page, ...]
    extraction: Extraction = "Native"


def of_document(document: Document) -> Source:
    """Take a document of the harness for a text file whose first paragraph is its title."""
    text = "\n\n".join(part for part in (document.title, document.text) if part)
    name = document.doc_id
    return Source(document.doc_id, name, name, (Page(None, mended(text)),))


def mended(text: str) -> str:
    """Put U+FFFD for half of a surrogate pair, which no file can hold; lengths stay."""
    return _HALF_A_PAIR.sub("\ufffd", text)
