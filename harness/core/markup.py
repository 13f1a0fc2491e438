"""Words of HTML pages, and headers and text of mails."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from datetime import UTC
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
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
_BLANK = re.compile(r"(?<!\s)[^\S\n]*+\n[^\S\n]*+\n\s*+")
_LINE_END = re.compile(r"(?<![ \t])[ \t]++(?=\n)")
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
