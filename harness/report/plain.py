"""Text of strangers in a page: the part around a word, and Markdown without its markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC

from harness.core.formats import moment_of
from harness.core.printable import one_line
from harness.core.reading import Malformed

MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$])")


def snippet(text: str, query: str, limit: int) -> str:
    """Cut at most ``limit`` characters around the first word of ``query`` found in ``text``."""
    line = one_line(text)
    folded = line.lower()
    words = [word for word in re.findall(r"\w{3,}", query.lower()) if word in folded]
    first = min((folded.find(word) for word in words), default=0)
    start = max(0, min(first - limit // 4, len(line) - limit))
    start = line.rfind(" ", 0, start) + 1 if start else 0
    return ("…" if start else "") + one_line(line[start:], limit)


def minute(moment: str) -> str:
    """Write an ISO time to the minute, in UTC; another text stays as it is."""
    try:
        return f"{moment_of(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except Malformed:
        return moment


def markdown(text: str, limit: int | None = None) -> str:
    """Escape for a Markdown table cell: no markup, no HTML, no link, no mention."""
    line = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = MARKDOWN.sub(r"\\\1", line)
    return re.sub(r"(?<!\w)@", "&#64;", line.replace("://", "&#58;//"))


def markdown_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table and an empty line; cells are escaped."""
    yield f"| {' | '.join(markdown(name) for name in header)} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(markdown(cell) or ' ' for cell in row)} |"
    yield ""
