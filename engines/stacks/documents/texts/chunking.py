"""Texts cut into chunks that overlap, each with the place it was cut from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engines.stacks.documents.texts.provenance import Provenance, Span
from engines.stacks.documents.texts.sources import Source, joined, starts

_LINE_END = re.compile(r"\r\n|\n|\r")
_BREAKS = (
    re.compile(r"\s*(?:\r\n?|\n)\s*(?:\r\n?|\n)"),
    re.compile(r"(?<=[.!?])\s"),
    re.compile(r"\s"),
)
"""Where a chunk had best end: a paragraph, a sentence, a word."""
_SOLID = re.compile(r"\S")


class Cutting(NamedTuple):
    """Sizes in characters; the overlap is less than half a chunk."""

    characters: int
    overlap: int
    ends: Literal["break", "anywhere"] = "break"
    """Whether a chunk is made shorter to end where the text breaks."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a document, and where it stands there."""

    provenance: Provenance
    text: str


def chunks(source: Source, cutting: Cutting) -> Iterator[Chunk]:
    """Cut a document; chunks are numbered through all of its pages.

    A chunk begins and ends with a character that is not white space. It leaves its page where a
    sentence does, but no mail. The pages' other characters are all in some chunk.
    """
    index = 0
    for run in source.runs:
        text, begins = joined(run), starts(run)
        layouts = [Layout.of(page.text) for page in run]
        for start, end in stretches(text, cutting):
            first, last = (bisect_right(begins, at) - 1 for at in (start, end - 1))
            began, ended = start - begins[first], end - begins[last]
            yield Chunk(
                Provenance(
                    document=source.name,
                    document_path=source.path,
                    document_id=source.document_id,
                    chunk_id=chunk_id(source.document_id, index),
                    chunk_index=index,
                    page=run[first].number,
                    page_end=run[last].number,
                    paragraphs=Span(
                        layouts[first].paragraphs(began, began + 1).first,
                        layouts[last].paragraphs(ended - 1, ended).last,
                    ),
                    lines=Span(
                        layouts[first].lines(began, began + 1).first,
                        layouts[last].lines(ended - 1, ended).last,
                    ),
                    char_start=began,
                    char_end=ended,
                ),
                text[start:end],
            )
            index += 1


def chunk_id(document_id: str, index: int) -> str:
    """Name a chunk; within a document the order of the names is that of the text."""
    return f"{document_id}#{index:06d}"


def stretches(text: str, cutting: Cutting) -> Iterator[tuple[int, int]]:
    """Give start and end of each chunk of one text.

    A chunk has at most ``characters``, and ends at a paragraph, else a sentence, else a word where
    one ends among its last ``overlap`` characters. The next begins at most ``overlap`` characters
    before that end, at a word where it can. Where no more than ``overlap`` characters would
    remain, which would make a chunk of little but repetition, they are taken along. With ends
    ``anywhere``, words are cut where they must be.
    """
    start, stop = _solid(text, 0), len(text.rstrip())
    anywhere = cutting.ends == "anywhere"
    while start < stop:
        if stop - start <= cutting.characters + cutting.overlap:
            yield start, stop
            return
        high = start + cutting.characters
        end = high if anywhere else _end(text, high - cutting.overlap, high)
        yield start, start + len(text[start:end].rstrip())
        low = end - cutting.overlap
        start = _solid(text, low if anywhere else _begin(text, low, end))


def _end(text: str, low: int, high: int) -> int:
    """Last good place to end from ``low`` to ``high``; ``high`` itself where there is none."""
    for kind in _BREAKS:
        ends = [found.start() for found in kind.finditer(text, low, high + 1)]
        if ends:
            return ends[-1]
    return high


def _begin(text: str, low: int, end: int) -> int:
    """First place from ``low`` on where a word begins; ``low`` where none does before ``end``."""
    if text[low - 1].isspace():
        return low
    found = _BREAKS[-1].search(text, low, end)
    return found.end() if found else low


def _solid(text: str, start: int) -> int:
    """First place from ``start`` on that is no white space; the end where there is none."""
    match = _SOLID.search(text, start)
    return match.start() if match else len(text)


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
