"""Text of strangers in a page: the part around a word, and Markdown without its markup."""

from __future__ import annotations

import re

from harness.core.printable import one_line

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


def markdown(text: str, limit: int | None = None) -> str:
    """Escape for a Markdown table cell: no markup, no HTML, no link, no mention."""
    line = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = MARKDOWN.sub(r"\\\1", line)
    return re.sub(r"(?<!\w)@", "&#64;", line.replace("://", "&#58;//"))
