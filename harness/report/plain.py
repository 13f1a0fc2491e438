"""Text of strangers, made fit to print: queries and documents may hold anything.

What comes out holds only characters that XML 1.0 allows, so the same text serves HTML, JUnit and
SVG. Each of those still escapes its own markup.
"""

from __future__ import annotations

import re

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Controls that turn the rest of a line around: they can make a page say what it does not."""
MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$])")
CONTROL_PICTURES = 0x2400
SPACE = 0x20
DELETE = 0x7F


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < SPACE:
        return chr(CONTROL_PICTURES + code)
    return "\u2421" if code == DELETE else "\ufffd"


def printable(text: str) -> str:
    """Show control characters as pictures and direction overrides by their number."""
    shown = FORBIDDEN.sub(_shown, text.replace("\r\n", "\n"))
    return DIRECTION.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", shown)


def one_line(text: str, limit: int | None = None) -> str:
    """Make ``text`` printable on one line of at most ``limit`` characters."""
    line = " ".join(printable(text).split())
    if limit is not None and len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line


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
