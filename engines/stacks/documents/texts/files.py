"""Documents read from files: plain text, Markdown and PDF.

A text file is decoded as UTF-8 and left as it is, line ends and byte order mark included, so that
places count the characters of the file itself. A PDF has no characters to count: its places count
those that pypdf extracts from a page, and the extracted text is kept in the index.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from engines.stacks.documents.texts.sources import Page, Source, mended
from harness.core.errors import BadFile
from harness.core.reading import Malformed, whole

TEXT_SUFFIXES = frozenset({".txt", ".md", ".markdown", ".rst"})
PDF_SUFFIX = ".pdf"
SUFFIXES = TEXT_SUFFIXES | {PDF_SUFFIX}
_DAMAGE = (
    OSError,
    PyPdfError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What reading a damaged file may raise: pypdf trusts what a file says of itself."""


class Ingested(NamedTuple):
    """What a folder held."""

    sources: tuple[Source, ...]
    """In the order of their ids."""
    refused: tuple[BadFile, ...]
    """Files of a known kind that could not be read, each with its remedy."""


def folder(root: Path) -> Ingested:
    """Read every text, Markdown and PDF file below ``root``; links are not followed.

    A document's id is its path below ``root``. One file that cannot be read does not stop the rest.

    Raises:
        BadFile: ``root`` is not a folder.
    """
    if not root.is_dir():
        raise BadFile(root, "is not a folder", "Give the folder that holds the documents")
    sources: list[Source] = []
    refused: list[BadFile] = []
    for path in _files(root):
        try:
            sources.append(read(path, path.relative_to(root).as_posix()))
        except BadFile as exc:
            refused.append(exc)
    return Ingested(tuple(sources), tuple(refused))


def read(path: Path, document_id: str) -> Source:
    """Read one file.

    Raises:
        BadFile: it cannot be opened, is not UTF-8, no PDF, damaged, encrypted with a password, or a
            PDF without text.
    """
    try:
        data = whole(path)
    except OSError as exc:
        raise BadFile(path, f"cannot be opened ({exc})", "Look at its permissions") from exc
    except Malformed as exc:
        raise BadFile(path, str(exc), "Leave it out, or split it") from exc
    return source(path, document_id, data)


def source(path: Path, document_id: str, data: bytes) -> Source:
    """Make a document of the bytes of a file.

    Raises:
        BadFile: as ``read``.
    """
    is_pdf = path.suffix.lower() == PDF_SUFFIX
    pages = _pdf(path, data) if is_pdf else (Page(None, _text(path, data)),)
    return Source(document_id, path.name, str(path.resolve()), pages)


def _files(root: Path) -> Iterator[Path]:
    found = [path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES]
    files = (path for path in found if path.is_file() and not path.is_symlink())
    return iter(sorted(files, key=lambda path: path.relative_to(root).as_posix()))


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        hint = "Save it as UTF-8; its places would not be those of the file otherwise"
        raise BadFile(path, f"is not UTF-8 ({exc.reason})", hint, line) from exc


def _pdf(path: Path, data: bytes) -> tuple[Page, ...]:
    anew = "Save it anew as a PDF, from the program that made it"
    try:
        reader = PdfReader(BytesIO(data))
        texts = [mended(page.extract_text()) for page in reader.pages]
    except FileNotDecryptedError as exc:
        raise BadFile(path, "is encrypted with a password", f"{anew}, without one") from exc
    except DependencyError as exc:
        raise BadFile(path, f"is encrypted in a way that needs more ({exc})", anew) from exc
    except _DAMAGE as exc:
        what = f"{exc}" or type(exc).__name__
        raise BadFile(path, f"is damaged, or no PDF ({what})", anew) from exc
    if not any(text.strip() for text in texts):
        hint = "Where its pages are pictures, recognise their text first"
        raise BadFile(path, "has no text", hint)
    return tuple(Page(number, text) for number, text in enumerate(texts, start=1))
