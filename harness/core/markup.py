"""Words of HTML pages, and headers and text of mails.

The parser of libxml2 reads pages, and no tree is made: none fails or takes more than linear time.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime

from lxml import etree

BLOCKS = frozenset([
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"),
    *("dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "legend", "li"),
    *("listing", "main", "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre"),
    *("search", "section", "select", "summary", "table", "textarea", "title", "tr", "ul", "xmp"),
])
"""Elements that stand apart from what is beside them."""
BREAKS = {"br": "\n", **dict.fromkeys(("td", "th", "button", "input", "img", "object"), " ")}
"""What elements within a block put between words."""
AS_TYPED = frozenset({"listing", "plaintext", "pre", "textarea", "xmp"})
SILENT = frozenset({"script", "style", "template", "iframe", "noembed", "rp"})
MOST_OPEN = 5_000
"""Elements inside of each other; the end of one takes as long as there are."""
CHUNK = 1 << 15
_BLANK = re.compile(r"(?<!\s)[^\S\n]*+\n[^\S\n]*+\n\s*+")
_LINE_END = re.compile(r"(?<![ \t])[ \t]++(?=\n)")


def words(page: str) -> str:
    """Return what a person reads, with a space between words."""
    return " ".join(paragraphs(page).split())


def paragraphs(page: str) -> str:
    """Return the same in paragraphs: a blank line between blocks, and the lines of ``pre``.

    A reading in ruby follows the word that it is of. What is nested deeper than ``MOST_OPEN``
    elements ends the page.
    """
    read = _Text()
    parser = etree.HTMLParser(target=read, encoding="utf-8", huge_tree=True)
    data = f"<body>{page}".encode("utf-8", "replace")
    with suppress(RecursionError):
        for at in range(0, len(data), CHUNK):
            parser.feed(data[at : at + CHUNK])
        parser.close()
    blocks = (_LINE_END.sub("", block.strip()) for block in _BLANK.split("".join(read.found)))
    return "\n\n".join(filter(None, blocks))


class _Text:
    """Receives the parts of a page in their order."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.readings: list[str] = []
        self.began: list[int] = []
        """Where in ``found`` the readings that are open begin."""
        self.open = self.typed = self.silent = 0

    def start(self, name: str, _: object) -> None:
        self.open += 1
        if self.open > MOST_OPEN:
            raise RecursionError
        self.typed += name in AS_TYPED
        self.silent += name in SILENT
        self.found.append("\n\n" if name in BLOCKS else BREAKS.get(name, ""))
        if name == "rt":
            self.began.append(len(self.found))

    def end(self, name: str) -> None:
        self.open -= 1
        self.typed -= name in AS_TYPED
        self.silent -= name in SILENT
        if name in BLOCKS:
            self.found.append("\n\n")
        elif name == "rt" and self.began:
            begin = self.began.pop()
            self.readings += self.found[begin:]
            del self.found[begin:]
        elif name == "ruby" and self.readings:
            self.found.append(f"({''.join(self.readings)})")
            self.readings = []

    def data(self, text: str) -> None:
        if not self.silent:
            self.found.append(text if self.typed else re.sub(r"\s+", " ", text))

    def close(self) -> None:
        """End the page; the parser requires it."""


MAX_HEADER = 1 << 16
"""Characters of a header that are read."""
NO_CHARSETS = frozenset({"punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape"})
"""Python's codecs that are not charsets; two of them take time quadratic in the length."""


def header(mail: Message, name: str, problems: list[str]) -> str:
    """Join and decode all headers of a name."""
    found: list[str] = []
    for raw in mail.get_all(name, []):
        if isinstance(raw, Header):
            problems.append(f"its {name} holds bytes of no charset")
        whole = str(raw)
        if len(whole) > MAX_HEADER:
            problems.append(f"its {name} has more than {MAX_HEADER} characters, and was cut")
            raw = whole = whole[:MAX_HEADER]  # noqa: PLW2901  shorter
        try:
            words = decode_header(raw)
            for _, charset in words:
                _refuse_no_charset(charset or "ascii")
            found.append(str(make_header(words)))
        except (HeaderParseError, LookupError, ValueError) as exc:
            problems.append(f"its {name} cannot be decoded ({exc})")
            found.append(whole)
    return clean(" ".join(found))


def addresses(headers: Sequence[str], problems: list[str]) -> list[str]:
    """Take the addresses out of headers; none where they cannot be told apart."""
    try:
        return [address for _, address in getaddresses(headers)]
    except RecursionError:
        problems.append("its addresses are nested too deeply")
        return []


def moment(text: str, problems: list[str]) -> int | None:
    """Read a date: microseconds since 1970 UTC; one that names no zone (-0000) is in UTC."""
    try:
        when = parsedate_to_datetime(text)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 1_000_000
    except (ValueError, TypeError, OverflowError, IndexError):
        problems.append(f"its date {text!r} cannot be read" if text else "it has no date")
        return None


def texts(mail: Message, problems: list[str]) -> list[str]:
    """Give the texts of a mail without its attachments: plain ones, else the words of pages."""
    parts = [
        part
        for part in mail.walk()
        if not part.is_multipart() and part.get_content_disposition() != "attachment"
    ]
    plain = [part for part in parts if part.get_content_type() == "text/plain"]
    if plain:
        return [_decoded(part, problems) for part in plain]
    pages = [part for part in parts if part.get_content_type() == "text/html"]
    if pages:
        problems.append("it has no text/plain, so the words of its text/html were taken")
    return [words(_decoded(part, problems)) for part in pages]


def clean(text: str) -> str:
    """Replace halves of surrogate pairs, and write line ends one way."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(part: Message, problems: list[str]) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    charset = part.get_content_charset("us-ascii")
    try:
        _refuse_no_charset(charset)
        return clean(data.decode("utf-8" if charset == "us-ascii" else charset))
    except (LookupError, ValueError):
        problems.append(f"its text is not {charset}, as it says")
        return clean(data.decode("utf-8", "replace"))


def _refuse_no_charset(name: str) -> None:
    """Refuse a codec that no mail is written in; what is no codec at all, the decoding refuses.

    Raises:
        LookupError: it is not a charset.
    """
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return
    if known in NO_CHARSETS:
        raise LookupError(f"{name} is not a charset")
