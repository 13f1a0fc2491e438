"""The text of a Word document (docx): a blank line between paragraphs, a line for a table's row."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from harness.core.errors import BadFile
from harness.core.extras import hint

SUFFIX = ".docx"
MAX_UNPACKED_BYTES = 256 << 20
"""Of all parts of a document together."""


def text(path: Path, data: bytes) -> str:
    """Give paragraphs and tables in their order; headers, footers and notes are left out.

    Raises:
        BadFile: python-docx is not installed, or the file is damaged, too large or without text.
    """
    try:
        from docx import Document
        from docx.opc.exceptions import OpcError
    except ModuleNotFoundError as exc:
        raise BadFile(path, "is a Word document", hint(exc) or "Install python-docx") from exc
    try:
        with ZipFile(BytesIO(data)) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
        if unpacked > MAX_UNPACKED_BYTES:
            raise BadFile(path, f"unpacks to {unpacked} bytes", "Leave it out, or split it")
        found = "\n\n".join(_paragraphs(Document(BytesIO(data)).iter_inner_content()))
    except (BadZipFile, OpcError, SyntaxError, LookupError, ValueError, OSError) as exc:
        what = f"{exc}" or type(exc).__name__
        again = "Save it anew as docx, from the program that made it"
        raise BadFile(path, f"is damaged, or no Word document ({what})", again) from exc
    if not found.strip():
        raise BadFile(path, "has no text", "Where its pages are pictures, recognise their text")
    return found


def _paragraphs(blocks: Any) -> Iterator[str]:  # noqa: ANN401  of a package without types
    from docx.table import Table

    for block in blocks:
        if isinstance(block, Table):
            yield "\n".join(_row(row) for row in block.rows)
        elif said := block.text.strip():
            yield said


def _row(row: Any) -> str:  # noqa: ANN401  as above
    """Write a row; a cell that spans columns stands once."""
    cells = groupby(row.cells, key=lambda cell: cell._tc)  # noqa: SLF001  its only identity
    return " | ".join(" ".join(next(same).text.split()) for _, same in cells)
