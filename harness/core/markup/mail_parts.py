"""Headers and text of one mail, which may have been written to break its readers.

Whatever is odd is said in a sentence, and something is given all the same. No header and no page is
read in more than about linear time: their length is bounded, and so are their charsets.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from datetime import UTC
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime

from harness.core.markup import html_words

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
    return [html_words.words(_decoded(part, problems)) for part in pages]


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
