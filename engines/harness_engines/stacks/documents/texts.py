"""Documents: read from files of any format, and cut into chunks that say where they stand."""

import re
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from io import BytesIO
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from zipfile import ZipFile

import webencodings

from harness.core.errors import BadFile, hint
from harness.core.markup import BEGIN, clean, header, mails, paragraphs, texts
from harness.core.printable import counted
from harness.core.records import Document
from harness_engines.kept.index import utf8
from harness_engines.lexical.terms import mended
from harness_engines.stacks.documents import pdf

BETWEEN_PAGES = "\n"
COMMAS = ",;-\xad\u2010\u2013\u2014\u3001\uff0c"
"""Signs within a sentence; one of letters and digits alone may end a page as well."""
BOX = ".mbox"
"""Files of mails, which are pages by themselves."""


class TextPage(NamedTuple):
    """One stretch of text, of a page or of a whole file."""

    number: int | None
    """From 1; None where a file has no pages."""
    text: str


@dataclass(frozen=True, slots=True)
class DocumentText:
    """One document as it was read."""

    document_id: str
    name: str
    path: str
    pages: tuple[TextPage, ...]
    notes: tuple[str, ...] = ()
    """What of it cannot be found, or may be read wrongly."""

    @property
    def runs(self) -> Sequence[tuple[TextPage, ...]]:
        """Return the pages over which a sentence goes on; each other page is by itself."""
        runs: list[tuple[TextPage, ...]] = []
        for page in self.pages:
            if runs and not self.is_box and _goes_on(runs[-1][-1].text, page.text):
                runs[-1] = (*runs[-1], page)
            else:
                runs.append((page,))
        return runs

    @property
    def is_box(self) -> bool:
        """Return whether the pages are mails."""
        return self.name.lower().endswith(BOX)


def _goes_on(before: str, after: str) -> bool:
    """Return whether a page ends within a sentence that the next one does not begin anew."""
    last, first = before.rstrip()[-1:], after.lstrip()[:1]
    is_within = last.isalnum() or (bool(last) and last in COMMAS)
    return is_within and first.isalpha() and not first.isupper() and not first.istitle()


def joined(pages: Sequence[TextPage]) -> str:
    """Join pages as one text."""
    return BETWEEN_PAGES.join(page.text for page in pages)


def starts(pages: Sequence[TextPage]) -> list[int]:
    """Return where each page begins in the text of ``joined``."""
    return [0, *accumulate(len(page.text) + len(BETWEEN_PAGES) for page in pages)][: len(pages)]


def of_document(document: Document) -> DocumentText:
    """Take a document of the harness for a text file whose first paragraph is its title."""
    text = "\n\n".join(part for part in (document.title, document.text) if part)
    name = document.doc_id
    return DocumentText(document.doc_id, name, name, (TextPage(None, mended(text)),))


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
            lines, paragraphs = (
                NumberSpan(bisect_right(above, began), bisect_right(below, ended - 1))
                for above, below in zip(layouts[first], layouts[last], strict=True)
            )
            yield DocumentChunk(
                source,
                index,
                text[start:end],
                page=run[first].number,
                page_end=run[last].number,
                paragraphs=paragraphs,
                lines=lines,
                char_start=began,
                char_end=ended,
            )
            index += 1


def stretches(text: str, cutting: Cutting) -> Iterator[tuple[int, int]]:
    """Return start and end of each chunk of one text.

    A chunk has at most ``characters``, and ends at a paragraph, else a sentence, else a word where
    one ends among its last ``overlap`` characters. The next begins at most ``overlap`` characters
    before that end, at a word where it can. Where no more than ``overlap`` characters would
    remain, which would make a chunk of little but repetition, they are taken along.
    """
    start, stop = _solid(text, 0), len(text.rstrip())
    while start < stop:
        if stop - start <= cutting.characters + cutting.overlap:
            yield start, stop
            return
        high = start + cutting.characters
        end = _end(text, high - cutting.overlap, high)
        yield start, start + len(text[start:end].rstrip())
        start = _solid(text, _begin(text, end - cutting.overlap, end))


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


def layout_of(text: str) -> tuple[list[int], list[int]]:
    """Find where lines (ended by a line feed, a carriage return or both) and paragraphs begin.

    A paragraph is a run of lines that hold more than white space.
    """
    ends = [found.span() for found in _LINE_END.finditer(text)]
    lines = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    is_blank = [not text[start:stop].strip() for start, stop in zip(lines, stops, strict=True)]
    before = zip(lines, [True, *is_blank], is_blank, strict=False)
    return lines, [start for start, above, blank in before if above and not blank]


HEADERS = ("Subject", "From", "To", "Cc", "Date")


def box(path: Path, data: bytes, odd: list[str]) -> Iterator[TextPage]:
    """Yield the mails of an mbox file, numbered from 1."""
    if not data.removeprefix(BOM_UTF8).startswith(BEGIN):
        raise BadFile(path, "holds no mail", "A mail begins with a line 'From '")
    held: list[list[bytes]] = []
    for line, begins in mails(BytesIO(data)):
        if begins or not held:
            held.append([])
        else:
            held[-1].append(line)
    doubts: dict[int, str] = {}
    for at, one in enumerate(held, start=1):
        problems: list[str] = []
        yield TextPage(at, mail(b"".join(one), problems))
        if problems:
            doubts[at] = problems[0]
    if doubts:
        at, problem = next(iter(doubts.items()))
        odd.append(f"{counted(len(doubts), 'mail')} with such a problem as mail {at}: {problem}")


def mail(data: bytes, odd: list[str]) -> str:
    """Return the text of one mail, and add to ``odd`` what may be read wrongly; empty if none."""
    problems: list[str] = []
    try:
        parsed = message_from_bytes(data.replace(b"\r\n", b"\n"))
        said = ((name, " ".join(header(parsed, name, problems).split())) for name in HEADERS)
        head = "\n".join(f"{name}: {value}" for name, value in said if value)
        body = "\n\n".join(texts(parsed, problems)).strip()
    except Exception:  # noqa: BLE001  a mail may break the parser in any way
        return clean(data.decode("utf-8", "replace")).strip()
    odd += [one for one in problems if "text/html" not in one]
    return "\n\n".join(filter(None, (head, body)))


HEAD_BYTES = 2_048
"""Bytes within which a page says its charset."""
_COMMENT = re.compile(rb"<!--(?:(?!-->).)*+(?:-->)?+", re.DOTALL)
_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\b[^<>]*?\b(?:charset|encoding)\s*+=\s*+["']?+\s*+([^\s"'/>;]+)""",
    re.IGNORECASE,
)


def text_of_page(path: Path, data: bytes, odd: list[str]) -> str:
    """Decode a page as browsers do, and return its text.

    To ``odd`` is added that its bytes are not of the charset that it names, or are UTF-8 as well.
    """
    said = _CHARSET.search(_COMMENT.sub(b"", data[:HEAD_BYTES]))
    label = webencodings.lookup(said[1].decode("ascii", "replace")) if said else None
    if label is not None and label.name.startswith("utf-16"):
        label = webencodings.UTF8  # what says so in ASCII is none
    if label is not None and label.name == "gbk":
        label = webencodings.lookup("gb18030")
    try:
        decoded, used = webencodings.decode(data, label or webencodings.UTF8, "strict")
        is_both = used.name != "utf-8" and "\ufffd" not in data.decode("utf-8", "replace")
        if is_both and not data.isascii():
            odd.append(f"names {used.name}, and is UTF-8 as well. Correct its charset if need be")
    except UnicodeDecodeError as exc:
        if label is None:
            remedy = "Name its charset in a meta tag, or save it as UTF-8"
            problem = f"names no charset, and is not UTF-8 ({exc.reason})"
            raise BadFile(path, problem, remedy) from exc
        decoded, used = webencodings.decode(data, label, "replace")
        odd.append(f"is not {used.name}, which it names. Correct that, or save it as UTF-8")
    found = paragraphs(decoded)
    if not found:
        raise BadFile(path, "has no text", "Where a script makes its text, save what it shows")
    return found


MAX_UNPACKED_BYTES = 256 << 20
"""Of all parts of a document together."""
UNSEEN = ("del", "moveFrom", "Fallback")
"""What Word does not show: deletions, old places, and forms for programs that lack the first."""
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SEEN = " or ".join(f"ancestor::*[local-name() = '{name}']" for name in UNSEEN)
_RUNS = f".//m:t[not({_SEEN})] | "
_RUNS += " | ".join(f".//w:r/w:{name}[not({_SEEN})]" for name in ("t", *_SIGNS))


def text_of_word(path: Path, data: bytes) -> str:
    """Return paragraphs and tables in their order, content controls and insertions among them.

    Notes follow. Deletions are left out, and so are headers, footers and comments.
    """
    from docx import Document
    from docx.oxml import parse_xml

    with ZipFile(BytesIO(data)) as parts:
        unpacked = sum(part.file_size for part in parts.infolist())
    if unpacked > MAX_UNPACKED_BYTES:
        raise BadFile(path, f"unpacks to {unpacked} bytes", "Leave it out, or split it")
    part = Document(BytesIO(data)).part
    tied = sorted(part.rels.values(), key=lambda one: str(one.reltype), reverse=True)
    notes = [parse_xml(one.target_part.blob) for one in tied if one.reltype.endswith("notes")]
    body = part.element.body
    found = "\n\n".join(said for one in (body, *notes) if one is not None for said in _blocks(one))
    if not found:
        raise BadFile(path, "has no text", "Where its pages are pictures, recognise their text")
    return found


def _blocks(parent: Any) -> Iterator[str]:  # noqa: ANN401  of a package without types
    """Yield what paragraphs and tables say, at any depth of what wraps them."""
    for child in parent.iterchildren("*"):
        name, said = _name(child), ""
        if name == "p":
            said = _said(child)
        elif name == "tbl":
            cells = (
                [" ".join(_blocks(cell)) for cell in _own(row, "w:tc")]
                for row in _own(child, "w:tr")
            )
            rows = (" | ".join(" ".join(one.split()) for one in row) for row in cells)
            said = "\n".join(filter(None, rows))
        elif name not in UNSEEN:
            yield from _blocks(child)
        if said:
            yield said


def _own(element: Any, name: str) -> list[Any]:  # noqa: ANN401  as above
    """Return the parts that are of no such element inside of this one."""
    parts = element.xpath(f".//{name}")
    return [part for part in parts if next(part.iterancestors(element.tag)) is element]


def _said(paragraph: Any) -> str:  # noqa: ANN401  as above
    """Return the text of a paragraph; that of a box of text in it stands on lines of its own."""
    said, place = [], paragraph
    for part in paragraph.xpath(_RUNS):
        before, place = place, next(part.iterancestors(paragraph.tag))
        said += ["\n"] if place is not before else []
        said.append(_SIGNS.get(_name(part)) or part.text or "")
    return "".join(said).strip()


def _name(element: Any) -> str:  # noqa: ANN401  as above
    return str(element.tag).rpartition("}")[2]


WORD, MAIL, PDF = ".docx", ".eml", ".pdf"
PAGES = frozenset({".html", ".htm", ".xhtml"})
PLAIN = frozenset({".txt", ".md", ".markdown", ".rst"})
SUFFIXES = PLAIN | PAGES | {PDF, WORD, MAIL, BOX}


def source(path: Path, document_id: str, data: bytes) -> DocumentText:
    """Make a document of the bytes of a file."""
    odd: list[str] = []
    pages = tuple(TextPage(one.number, mended(one.text)) for one in _pages(path, data, odd))
    if path.suffix.lower() == MAIL and not pages[0].text:
        raise BadFile(path, "holds no mail", "Save the mail with its headers")
    if bare := [f"{page.number}" for page in pages if page.number and not page.text.strip()]:
        odd.append(f"no text on page {', '.join(bare)}; it cannot be found")
    return DocumentText(document_id, path.name, str(path.resolve()), pages, tuple(odd))


def _pages(path: Path, data: bytes, odd: list[str]) -> list[TextPage]:
    """Read a file by its kind; add to ``odd`` what may be read wrongly."""
    kind = path.suffix.lower()
    try:
        if kind == PDF:
            return [TextPage(at, text) for at, text in enumerate(pdf.pages(path, data), start=1)]
        if kind == BOX:
            return [*box(path, data, odd)]
        if kind == MAIL:
            text = mail(data, odd)
        elif kind == WORD:
            text = text_of_word(path, data)
        elif kind in PAGES:
            text = text_of_page(path, data, odd)
        else:
            remedy = "Save it as UTF-8; its places would not be those of the file otherwise"
            text = utf8(path, data, "utf-8", remedy)
        return [TextPage(None, text)]
    except BadFile:
        raise
    except Exception as exc:  # a damaged file may break its reader in any way
        named = kind.removeprefix(".")
        if isinstance(exc, ModuleNotFoundError) and (install := hint(exc)):
            raise BadFile(path, f"is a {named} file", install) from exc
        problem = f"is damaged, or no {named} ({exc or type(exc).__name__})"
        raise BadFile(path, problem, "Save it anew, from the program that made it") from exc
