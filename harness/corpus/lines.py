"""Text files, line by line, with the line number that an error message needs."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import BadFile

BYTE_ORDER_MARK = "\ufeff"
SPACES = " \t\n\r\v\f"
"""What separates the fields of a TREC line, and so may not be in an id."""


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number (from 1) and text of each line that is not blank.

    Lines end at a line feed and nowhere else: a text may hold any other Unicode. A name that
    ends with ``.gz`` is decompressed on the way.

    Raises:
        BadFile: the file is missing, is not UTF-8, or is a broken archive.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                line = _decoded(path, number, raw).rstrip("\r\n")
                if line.strip():
                    yield number, line
    except FileNotFoundError as exc:
        raise BadFile(path, "there is no such file", "Check the path.") from exc
    except (EOFError, gzip.BadGzipFile, zlib.error) as exc:
        raise BadFile(path, f"the archive is broken ({exc})", "Fetch or pack it again.") from exc
    except OSError as exc:
        raise BadFile(path, f"it cannot be read ({exc.strerror})", "Check the path.") from exc


def either(folder: Path, name: str) -> Path:
    """Choose ``name`` in ``folder``, or ``name.gz`` where only that exists."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def checked_id(path: Path, number: int, what: str, found: str) -> str:
    """Return the id, which every file format we write must be able to carry.

    Raises:
        BadFile: it is empty or holds white space.
    """
    if not found or any(space in found for space in SPACES):
        raise BadFile(
            path,
            f"the {what} id {found!r} is empty or holds white space",
            "Use ids that a TREC file can carry.",
            number,
        )
    return found


def _decoded(path: Path, number: int, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadFile(
            path,
            f"byte {exc.start + 1} of the line, 0x{raw[exc.start]:02x}, is not UTF-8",
            "Convert the file, for example: iconv -f latin1 -t utf-8.",
            number,
        ) from exc
    return text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
