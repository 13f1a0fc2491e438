"""Which line and which paragraph a character stands in."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from engines.stacks.documents.texts.provenance import Span

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the lines and the paragraphs of a text begin.

    A line ends with a line feed, a carriage return or both. A paragraph is a run of lines that
    hold more than white space.
    """

    line_starts: tuple[int, ...]
    paragraph_starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Layout:
        """Read a text once."""
        ends = [found.span() for found in _LINE_END.finditer(text)]
        starts = [0, *(end for _, end in ends)]
        stops = [*(start for start, _ in ends), len(text)]
        paragraphs: list[int] = []
        within = False
        for start, stop in zip(starts, stops, strict=True):
            blank = not text[start:stop].strip()
            if not blank and not within:
                paragraphs.append(start)
            within = not blank
        return cls(tuple(starts), tuple(paragraphs))

    def lines(self, start: int, end: int) -> Span:
        """Lines of the characters from ``start`` up to ``end``."""
        return _span(self.line_starts, start, end)

    def paragraphs(self, start: int, end: int) -> Span:
        """Paragraphs of the characters from ``start`` up to ``end``, which are not white space."""
        return _span(self.paragraph_starts, start, end)


def _span(starts: tuple[int, ...], start: int, end: int) -> Span:
    return Span(bisect_right(starts, start), bisect_right(starts, end - 1))
