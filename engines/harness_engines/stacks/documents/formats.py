"""Sources of documents, and text of e-mails, HTML pages and Word documents."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import webencodings

from harness.core.errors import BadFile
from harness.core.markup import BEGIN, clean, header, mails, paragraphs, texts
from harness.core.records import Document
from harness_engines.lexical.terms import mended

BETWEEN_PAGES = "\n"
COMMAS = ",;-\xad\u2010\u2013\u2014\u3001\uff0c"
"""Signs within a sentence; one of letters and digits alone may end a page as well."""
MAIL, BOX = ".eml", ".mbox"
"""Files of a mail, and of mails, which are pages by themselves."""


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


HEADERS = ("Subject", "From", "To", "Cc", "Date")


def mail(path: Path, data: bytes) -> str:
    """Return the text of one mail."""
    found = _text(data)
    if not found:
        raise BadFile(path, "holds no mail", "Save the mail with its headers")
    return found


def box(path: Path, data: bytes) -> tuple[TextPage, ...]:
    """Return the mails of an mbox file, numbered from 1."""
    if not data.removeprefix(BOM_UTF8).startswith(BEGIN):
        raise BadFile(path, "holds no mail", "A mail begins with a line 'From '")
    held: list[list[bytes]] = []
    for line, begins in mails(BytesIO(data)):
        if begins or not held:
            held.append([])
        else:
            held[-1].append(line)
    return tuple(TextPage(at, _text(b"".join(one))) for at, one in enumerate(held, start=1))


def _text(data: bytes) -> str:
    odd: list[str] = []
    try:
        parsed = message_from_bytes(data.replace(b"\r\n", b"\n"))
        said = ((name, " ".join(header(parsed, name, odd).split())) for name in HEADERS)
        head = "\n".join(f"{name}: {value}" for name, value in said if value)
        body = "\n\n".join(texts(parsed, odd)).strip()
    except Exception:  # noqa: BLE001  a mail may break the parser in any way
        return clean(data.decode("utf-8", "replace")).strip()
    return "\n\n".join(filter(None, (head, body)))


SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
HEAD_BYTES = 2_048
"""Bytes within which a page says its charset."""
_COMMENT = re.compile(rb"<!--(?:(?!-->).)*+(?:-->)?+", re.DOTALL)
_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\b[^<>]*?\b(?:charset|encoding)\s*+=\s*+["']?+\s*+([^\s"'/>;]+)""",
    re.IGNORECASE,
)


def text_of_page(path: Path, data: bytes) -> str:
    """Decode a page as browsers do, and return its text."""
    said = _CHARSET.search(_COMMENT.sub(b"", data[:HEAD_BYTES]))
    label = webencodings.lookup(said[1].decode("ascii", "replace")) if said else None
    if label is not None and label.name.startswith("utf-16"):
        label = webencodings.UTF8  # what says so in ASCII is none
    if label is not None and label.name == "gbk":
        label = webencodings.lookup("gb18030")
    try:
        decoded, _ = webencodings.decode(
            data, label or webencodings.UTF8, "replace" if label else "strict"
        )
    except UnicodeDecodeError as exc:
        hint = "Name its charset in a meta tag, or save it as UTF-8"
        raise BadFile(path, f"names no charset, and is not UTF-8 ({exc.reason})", hint) from exc
    found = paragraphs(decoded)
    if not found:
        raise BadFile(path, "has no text", "Where a script makes its text, save what it shows")
    return found


SUFFIX = ".docx"
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
