"""Pages of a PDF in reading order: columns one after the other, blank lines between paragraphs."""

from __future__ import annotations

import logging
import re
import struct
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from engines.stacks.documents.formats import Page, mended
from harness.core.errors import BadFile

LAYOUT, PLAIN = "pdfminer", "pypdf"
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
"""What reading a damaged file may raise: a reader trusts what a file says of itself."""
_SPACES = re.compile(r"(?<![^\S\n])[^\S\n]++(?=\n|$)")
_NO_CHARACTER = re.compile(r"\(cid:\d+\)")
"""What pdfminer writes for a glyph whose character no one knows."""


def pages(path: Path, data: bytes) -> tuple[Page, ...]:
    """Read the pages of a PDF; each is as it lies there, from 1.

    Raises:
        BadFile: it is encrypted with a password, damaged, no PDF, or without text.
    """
    anew = "Save it anew as a PDF, from the program that made it"
    logging.getLogger(PLAIN).setLevel(logging.CRITICAL)  # what it says names no file
    try:
        reader = PdfReader(BytesIO(data))
        count = len(reader.pages)
        texts = _by_place(data, count) or [page.extract_text() for page in reader.pages]
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
    return tuple(Page(number, mended(text)) for number, text in enumerate(texts, start=1))


def has_layout() -> bool:
    """Tell whether paragraphs and columns can be told."""
    return find_spec(LAYOUT) is not None


def _by_place(data: bytes, count: int) -> list[str]:
    """Read all pages by where their characters stand; nothing where that cannot be done."""
    if not has_layout():
        return []
    from pdfminer.high_level import extract_pages
    from pdfminer.layout import LAParams
    from pdfminer.psexceptions import PSException

    logging.getLogger(LAYOUT).setLevel(logging.CRITICAL)  # what it cannot read, pypdf names
    try:
        laid_out = extract_pages(BytesIO(data), laparams=LAParams())
        texts = ["\n\n".join(_paragraphs(page)) for page in laid_out]
    except (*_DAMAGE, PSException):
        return []
    return texts if len(texts) == count and any(texts) else []


def _paragraphs(page: Any) -> Iterator[str]:  # noqa: ANN401  of a package without types
    """Yield the paragraphs of a page, in the order in which they are read."""
    from pdfminer.layout import LTTextContainer

    boxes = (box for box in page if isinstance(box, LTTextContainer))
    for box in boxes:
        if text := _SPACES.sub("", _NO_CHARACTER.sub("\ufffd", box.get_text())).strip():
            yield text
