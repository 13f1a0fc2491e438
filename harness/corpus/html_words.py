"""The words of a page of HTML, in one pass: no page takes more than linear time, and none fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

TAG = re.compile(r"""<(?P<name>/?[a-zA-Z][^\s/>]*)(?:[^"'>]|"[^"]*"|'[^']*')*+>""")
"""A whole tag; what stands between quotes may hold its end."""
SILENT = re.compile(r"</(?:script|style)\b[^>]*>", re.IGNORECASE)


def words(page: str) -> str:
    """Give what a person reads, a space between words: no tags, comments, scripts and styles.

    What is not closed until the end of the page is text.
    """
    found: list[str] = []
    for text in _texts(page):
        try:
            found += unescape(text).split()
        except ValueError:  # a character's number of thousands of digits
            found += text.split()
    return " ".join(found)


def _texts(page: str) -> Iterator[str]:
    text = at = 0
    while (start := page.find("<", at)) >= 0:
        after = _after(page, start)
        if after is None:
            break
        if after > start + 1:
            yield page[text:start]
            text = after
        at = after
    yield page[text:]


def _after(page: str, start: int) -> int | None:
    """Say where the markup that starts here ends: one further if it is none, None if nowhere."""
    if page.startswith("<!--", start):
        return _past(page, "-->", start + 4)
    if page.startswith(("<!", "<?"), start):
        return _past(page, ">", start)
    if not page[start + 1 : start + 3].removeprefix("/")[:1].isalpha():
        return start + 1
    tag = TAG.match(page, start)
    if tag is None:
        return None
    if tag["name"].lower() in {"script", "style"}:
        end = SILENT.search(page, tag.end())
        return end.end() if end else len(page)
    return tag.end()


def _past(page: str, end: str, start: int) -> int | None:
    found = page.find(end, start)
    return None if found < 0 else found + len(end)
