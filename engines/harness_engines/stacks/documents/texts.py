"""Documents read from files, and texts cut into chunks that say where they stand."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from harness.core.errors import BadFile, hint
from harness_engines.lexical.terms import mended
from harness_engines.stacks.documents import formats, pdf
from harness_engines.stacks.documents.formats import DocumentText, TextPage, joined, starts


class NumberSpan(NamedTuple):
    """From the first to the last, both in it, counted from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A stretch of a document, and where it stands there.

    ``char_start`` and ``char_end`` count characters (code points) of the text of the file where
    ``page`` is ``None``, and of the page's text where there are pages. The chunk's text is what
    lies between them, with a line end between pages. Paragraphs and lines are counted likewise.
    """

    source: DocumentText
    index: int
    """Position in the document, from 0."""
    text: str
    page: int | None
    """Where it begins, from 1; None where a file has no pages. Of an mbox file, the mail."""
    page_end: int | None
    """Where it ends; the same as ``page``, but for a chunk that goes on over the end of a page."""
    paragraphs: NumberSpan
    """From that of its first page to that of its last page."""
    lines: NumberSpan
    char_start: int
    """On its first page."""
    char_end: int
    """On its last page."""

    @property
    def id(self) -> str:
        """Name it; within a document the order of the names is that of the text."""
        return f"{self.source.document_id}#{self.index:06d}"

    def cite(self) -> str:
        """Cite in full: ``Q3_Report.pdf, p. 12, para. 8``; lines without pages."""
        name, (first, last) = self.source.name, self.paragraphs
        if self.page is None:
            return f"{name}, para. {self.paragraphs}, l. {self.lines}"
        if self.page_end not in {None, self.page}:
            return f"{name}, p. {self.page}, para. {first} to p. {self.page_end}, para. {last}"
        return f"{name}, {self._unit} {self.page}, para. {self.paragraphs}"

    def cite_short(self) -> str:
        """Cite in short: ``Q3_Report, p. 12``; lines without pages."""
        place = f"l. {self.lines}" if self.page is None else f"{self._unit} {self.page}"
        place += "" if self.page_end in {None, self.page} else f"-{self.page_end}"
        return f"{PurePath(self.source.name).stem}, {place}"

    @property
    def _unit(self) -> str:
        return "mail" if self.source.is_box else "p."


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


def chunks(source: DocumentText, cutting: Cutting) -> Iterator[DocumentChunk]:
    """Cut a document; chunks are numbered through all of its pages.

    A chunk begins and ends with a character that is not white space. It leaves its page where a
    sentence does, but no mail. The pages' other characters are all in some chunk.
    """
    index = 0
    for run in source.runs:
        text, begins = joined(run), starts(run)
        layouts = [layout_of(page.text) for page in run]
        for start, end in stretches(text, cutting):
            first, last = (bisect_right(begins, at) - 1 for at in (start, end - 1))
            began, ended = start - begins[first], end - begins[last]
            above, below = layouts[first], layouts[last]
            yield DocumentChunk(
                source,
                index,
                text[start:end],
                page=run[first].number,
                page_end=run[last].number,
                paragraphs=NumberSpan(
                    bisect_right(above.paragraphs, began), bisect_right(below.paragraphs, ended - 1)
                ),
                lines=NumberSpan(
                    bisect_right(above.lines, began), bisect_right(below.lines, ended - 1)
                ),
                char_start=began,
                char_end=ended,
            )
            index += 1


def stretches(text: str, cutting: Cutting) -> Iterator[tuple[int, int]]:
    """Return start and end of each chunk of one text.

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


class TextLayout(NamedTuple):
    """Where the lines and the paragraphs of a text begin; the number of one counts from 1."""

    lines: list[int]
    paragraphs: list[int]


def layout_of(text: str) -> TextLayout:
    """Find lines, which end with a line feed, a carriage return or both, and paragraphs.

    A paragraph is a run of lines that hold more than white space.
    """
    ends = [found.span() for found in _LINE_END.finditer(text)]
    lines = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    is_blank = [not text[start:stop].strip() for start, stop in zip(lines, stops, strict=True)]
    before = zip(lines, [True, *is_blank], is_blank, strict=False)
    return TextLayout(lines, [start for start, above, blank in before if above and not blank])


TEXT_SUFFIXES = frozenset({".txt", ".md", ".markdown", ".rst"})
PDF_SUFFIX = ".pdf"
SUFFIXES = (
    TEXT_SUFFIXES | formats.SUFFIXES | {PDF_SUFFIX, formats.SUFFIX, formats.MAIL, formats.BOX}
)


def source(path: Path, document_id: str, data: bytes) -> DocumentText:
    """Make a document of the bytes of a file."""
    return DocumentText(document_id, path.name, str(path.resolve()), _pages(path, data))


def _pages(path: Path, data: bytes) -> tuple[TextPage, ...]:
    kind = path.suffix.lower()
    try:
        if kind == PDF_SUFFIX:
            return pdf.pages(path, data)
        if kind == formats.BOX:
            found = formats.box(path, data)
            return tuple(TextPage(one.number, mended(one.text)) for one in found)
        read_by = {formats.SUFFIX: formats.text_of_word, formats.MAIL: formats.mail}
        read_by |= dict.fromkeys(formats.SUFFIXES, formats.text_of_page)
        return (TextPage(None, mended(read_by.get(kind, _text)(path, data))),)
    except BadFile:
        raise
    except Exception as exc:  # a damaged file may break its reader in any way
        named = kind.removeprefix(".")
        if isinstance(exc, ModuleNotFoundError) and (install := hint(exc)):
            raise BadFile(path, f"is a {named} file", install) from exc
        problem = f"is damaged, or no {named} ({exc or type(exc).__name__})"
        raise BadFile(path, problem, "Save it anew, from the program that made it") from exc


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        hint = "Save it as UTF-8; its places would not be those of the file otherwise"
        raise BadFile(path, f"is not UTF-8 ({exc.reason})", hint, line) from exc
