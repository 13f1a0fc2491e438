"""Where a chunk stands in its document, and how that is cited (specification 004, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from engines.stacks.documents.texts.sources import MAILS


class Span(NamedTuple):
    """From the first to the last, both in it, counted from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The place of one chunk.

    ``char_start`` and ``char_end`` count characters (code points) of the text of the file where
    ``page`` is ``None``, and of the page's text where there are pages. The chunk's text is what
    lies between them, with a line end between pages. Paragraphs and lines are counted likewise.
    """

    document: str
    """File name."""
    document_path: str
    document_id: str
    chunk_id: str
    chunk_index: int
    """Position in the document, from 0."""
    page: int | None
    """Where it begins, from 1; None where a file has no pages. Of an mbox file, the mail."""
    paragraphs: Span
    """From that of its first page to that of its last page."""
    lines: Span
    char_start: int
    """On its first page."""
    char_end: int
    """On its last page."""
    page_end: int | None = None
    """Where it ends; the same as ``page``, but for a chunk that goes on over the end of a page."""

    @property
    def is_within_page(self) -> bool:
        """Tell whether it begins and ends on one page."""
        return self.page_end in {None, self.page}

    def cite(self) -> str:
        """Cite in full: ``Q3_Report.pdf, p. 12, para. 8``; lines without pages."""
        if self.page is not None:
            first, last = self.paragraphs
            if not self.is_within_page:
                to = f"p. {self.page_end}, para. {last}"
                return f"{self.document}, p. {self.page}, para. {first} to {to}"
            return f"{self.document}, {self._unit} {self.page}, para. {self.paragraphs}"
        return f"{self.document}, para. {self.paragraphs}, l. {self.lines}"

    def cite_short(self) -> str:
        """Cite in short: ``Q3_Report, p. 12``; lines without pages."""
        place = f"l. {self.lines}" if self.page is None else f"{self._unit} {self.page}"
        place += "" if self.is_within_page else f"-{self.page_end}"
        return f"{PurePath(self.document).stem}, {place}"

    @property
    def _unit(self) -> str:
        return "mail" if self.document.lower().endswith(MAILS) else "p."
