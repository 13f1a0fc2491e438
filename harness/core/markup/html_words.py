"""The words of a page of HTML, in one pass: no page takes more than linear time, and none fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

TAG = re.compile(r"""<(?P<name>/?[a-zA-Z][^\s/>]*+)(?:[^"'>]|"[^"]*"|'[^']*')*+>""")
"""A whole tag; what stands between quotes may hold its end."""
BLOCKS = frozenset([
    *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "dialog"),
    *("div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3"),
    *("h4", "h5", "h6", "head", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section"),
    *("summary", "table", "title", "tr", "ul"),
])
"""Elements that stand apart from what is beside them."""
_BLANK = re.compile(r"\s*\n\s*\n\s*")
_LINE_END = re.compile(r"[ \t]+(?=\n)")
SILENT = re.compile(r"</(?:script|style)\b", re.IGNORECASE)


def words(page: str) -> str:
    """Give what a person reads, a space between words: no tags, comments, scripts and styles.

    What is not closed until the end of the page is text.
    """
    return " ".join(word for text, _ in _texts(page) for word in _unescaped(text).split())


def paragraphs(page: str) -> str:
    """Give the same in paragraphs: a blank line between blocks, and the lines of ``pre``."""
    found: list[str] = []
    as_typed = 0
    for text, markup in _texts(page):
        said = _unescaped(text)
        found.append(said if as_typed else re.sub(r"\s+", " ", said))
        tag = TAG.match(markup)
        name = tag["name"].lower() if tag else ""
        if name.removeprefix("/") in BLOCKS:
            found.append("\n\n")
        elif name in {"br", "td", "th"}:
            found.append("\n" if name == "br" else " ")
        as_typed = max(0, as_typed + (name == "pre") - (name == "/pre"))
    blocks = (_LINE_END.sub("", block.strip()) for block in _BLANK.split("".join(found)))
    return "\n\n".join(filter(None, blocks))


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a character's number of thousands of digits
        return text


def _texts(page: str) -> Iterator[tuple[str, str]]:
    """Yield each stretch of text with the markup that ends it."""
    text = at = 0
    while (start := page.find("<", at)) >= 0:
        after = _after(page, start)
        if after is None:
            break
        if after > start + 1:
            yield page[text:start], page[start:after]
            text = after
        at = after
    yield page[text:], ""


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
        return (_past(page, ">", end.end()) if end else None) or len(page)
    return tag.end()


def _past(page: str, end: str, start: int) -> int | None:
    found = page.find(end, start)
    return None if found < 0 else found + len(end)
