"""The text of an HTML page: a blank line between its blocks."""

from __future__ import annotations

import re
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.markup.html_words import paragraphs

SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
HEAD_BYTES = 2_048
"""Bytes within which a page says its charset."""
_CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def text(path: Path, data: bytes) -> str:
    """Decode a page as it says, else as UTF-8, and give its text.

    Raises:
        BadFile: it is not in that charset, or has no text.
    """
    charset = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    said = _CHARSET.search(data, 0, HEAD_BYTES)
    charset = charset or (said[1].decode() if said else "utf-8")
    try:
        found = paragraphs(data.decode(charset))
    except (LookupError, ValueError) as exc:
        raise BadFile(path, f"is not in {charset} ({exc})", "Save it as UTF-8") from exc
    if not found:
        raise BadFile(path, "has no text", "Where a script makes its text, save what it shows")
    return found
