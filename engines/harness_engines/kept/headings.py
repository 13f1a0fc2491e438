"""Headings of Markdown, reStructuredText, Org and plain text, as the readers of each find them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

_LINE = re.compile(r"\n")
_FRONT = re.compile(
    r"\A\ufeff?(?:---[ \t]*$.*?^(?:---|\.\.\.)|\+\+\+[ \t]*$.*?^\+\+\+)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(\S.*)$", re.MULTILINE | re.IGNORECASE)
_FIELDS = re.compile(r"\A(?:\w[\w-]*:[^\n]*\n)*?title:[ \t]*(\S[^\n]*)", re.IGNORECASE)
"""A title among fields that begin a text without marks around them."""
_ORG = re.compile(
    r"^(?:(?:(\*+)|#\+title:)[ \t]+(\S.*)|[ \t]*#\+(begin|end)_.*)$", re.MULTILINE | re.IGNORECASE
)
"""A heading of Org, or where a block of code begins or ends."""
_SIGN = r"[!-/:-@\[-`{-~]"
_RST = re.compile(
    rf"(?:\A|^[ \t]*\n)(?P<over>(?P<o>{_SIGN})(?P=o)+[ \t]*\n[ \t]*)?"
    rf"(?P<title>\S[^\n]*)\n(?P<under>(?P<u>{_SIGN})(?P=u)+)[ \t]*$",
    re.MULTILINE,
)


class Heading(NamedTuple):
    """A heading, and where it stands."""

    start: int
    end: int
    """Of its last line."""
    level: int
    """From 1; 0 of a title that is named before the text begins."""
    title: str


def headings(suffix: str, text: str) -> list[Heading]:
    """List the headings of a text by the ending of its file, in their order.

    What stands in a fence, in code or in front matter is not one. Nor is an underlined line in
    plain text: a signature or a rule is underlined as well.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")  # places stay
    if suffix == ".rst":
        return list(_titles(text))
    front = _FRONT.match(text)
    named = _TITLE.search(text, 0, front.end()) if front else _FIELDS.match(text)
    found = [Heading(named.start(), named.end(), 0, named[1].strip().strip("\"'"))] if named else []
    if front:  # its lines stay
        text = re.sub(r"[^\n]", " ", front[0]) + text[front.end() :]
    return [*found, *(_org(text) if suffix == ".org" else _markdown(suffix, text))]


def _markdown(suffix: str, text: str) -> Iterator[Heading]:
    from markdown_it import MarkdownIt  # a folder without a change does not wait for it

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    if suffix == ".txt":
        parser.disable("lheading")
    starts = [0, *(end.end() for end in _LINE.finditer(text))]
    ends = [*(end.start() for end in _LINE.finditer(text)), len(text)]
    tokens = parser.parse(text)
    for token, inside in pairwise(tokens):
        if token.type == "heading_open" and not token.level and token.map and inside.content:
            low, high = token.map
            title = " ".join(inside.content.split())
            yield Heading(starts[low], ends[high - 1], int(token.tag[1:]), title)


def _org(text: str) -> Iterator[Heading]:
    is_inside = False
    for found in _ORG.finditer(text):
        if found[3]:
            is_inside = found[3].lower() == "begin"
        elif not is_inside:
            yield Heading(found.start(), found.end(), len(found[1] or ""), found[2].rstrip())


def _titles(text: str) -> Iterator[Heading]:
    """Yield titles of reStructuredText: underlined in full, with the same line above or none."""
    for found in _RST.finditer(text):
        over, title, under = found["over"], found["title"].rstrip(), found["under"]
        if len(under) >= len(title) and (not over or over.split()[0] == under):
            start = found.start("over") if over else found.start("title")
            yield Heading(start, found.end(), 1, title)
