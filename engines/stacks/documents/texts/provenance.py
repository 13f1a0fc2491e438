"""Where a chunk stands in its document, and how that is cited (specification 004, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple


class Span(NamedTuple):
    """From the first to the last, both in it, counted from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The place of one chunk.

    ``char_start`` and ``char_end`` count characters (code points) of the decoded file where
    ``page`` is ``None``, and of the page's extracted text where there are pages. The chunk's text
    is what lies between them. Paragraphs and lines are counted in the same text.
    """

    document: str
    """File name."""
    document_path: str
    document_id: str
    chunk_id: str
    chunk_index: int
    """Position in the document, from 0."""
    page: int | None
    """From 1; None where a file has no pages."""
    paragraphs: Span
    lines: Span
    char_start: int
    char_end: int

    def cite(self) -> str:
        """Cite in full: ``Q3_Report.pdf, p. 12, para. 8``; lines without pages."""
        if self.page is not None:
            return f"{self.document}, p. {self.page}, para. {self.paragraphs}"
        return f"{self.document}, para. {self.paragraphs}, l. {self.lines}"

    def cite_short(self) -> str:
        """Cite in short: ``Q3_Report, p. 12``; lines without pages."""
        place = f"l. {self.lines}" if self.page is None else f"p. {self.page}"
        return f"{PurePath(self.document).stem}, {place}"
