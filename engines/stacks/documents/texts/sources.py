"""What is searched: texts with a name, whole or in pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from harness.core.records import Document

Extraction = Literal["Native"]
"""How a text came out of its file. Nothing here reads pictures of text, so there is one way."""
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


BETWEEN_PAGES = "\n"
COMMAS = ",;-\xad\u2010\u2013\u2014\u3001\uff0c"
"""Signs within a sentence; one of letters and digits alone may end a page as well."""
MAILS = ".mbox"
"""Ends the name of a file whose pages are mails, each by itself."""


class Page(NamedTuple):
    """One stretch of text, of a page or of a whole file."""

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

    @property
    def runs(self) -> Sequence[tuple[Page, ...]]:
        """Give the pages over which a sentence goes on; each other page is by itself."""
        runs: list[tuple[Page, ...]] = []
        for page in self.pages:
            goes_on = bool(runs) and not self.is_box and _goes_on(runs[-1][-1].text, page.text)
            runs[-1:] = [(*runs[-1], page)] if goes_on else [*runs[-1:], (page,)]
        return runs

    @property
    def is_box(self) -> bool:
        """Tell whether the pages are mails."""
        return self.name.lower().endswith(MAILS)


def _goes_on(before: str, after: str) -> bool:
    """Tell whether a page ends within a sentence that the next one does not begin anew."""
    last, first = before.rstrip()[-1:], after.lstrip()[:1]
    is_within = last.isalnum() or (bool(last) and last in COMMAS)
    return is_within and first.isalpha() and not first.isupper() and not first.istitle()


def joined(pages: Sequence[Page]) -> str:
    """Put pages together as one text."""
    return BETWEEN_PAGES.join(page.text for page in pages)


def starts(pages: Sequence[Page]) -> list[int]:
    """Say where each page begins in the text of ``joined``."""
    return [0, *accumulate(len(page.text) + len(BETWEEN_PAGES) for page in pages)][: len(pages)]


def of_document(document: Document) -> Source:
    """Take a document of the harness for a text file whose first paragraph is its title."""
    text = "\n\n".join(part for part in (document.title, document.text) if part)
    name = document.doc_id
    return Source(document.doc_id, name, name, (Page(None, mended(text)),))


def mended(text: str) -> str:
    """Put U+FFFD for half of a surrogate pair, which no file can hold; lengths stay."""
    return _HALF_A_PAIR.sub("\ufffd", text)
