"""Words of HTML pages, and headers and text of mails.

The parser of libxml2 reads pages, and no tree is made: none fails or takes more than linear time.
Labels of charsets mean what browsers and mail programs take them for: gb2312 is GB 18030.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cache

import webencodings
from lxml import etree

BLOCKS = frozenset([
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"),
    *("dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "legend", "li"),
    *("listing", "main", "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre"),
    *("search", "section", "select", "summary", "table", "textarea", "title", "tr", "ul", "xmp"),
])
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
    """Return the same in paragraphs; what is nested beyond ``MOST_OPEN`` elements ends the page."""
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


BEGIN = b"From "
"""What the line before a mail in an mbox file begins with."""
MAX_HEADER = 1 << 16
NO_CHARSETS = frozenset({"punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape"})
"""Python's codecs that are not charsets; two of them take time quadratic in the length."""
WIDER = {"gbk": "gb18030", "iso2022_jp": "iso2022_jp_ext"}
NO_LABEL = "us-ascii"
HEAD_BYTES = 2_048
"""Bytes within which a page says its charset where its mail does not."""
_META = re.compile(rb"""<meta\b[^<>]*?charset\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
ENVELOPE = re.compile(
    rb"From (?=.*\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b)(?=.*\d:\d\d).*\b\d{4}\b"
)
"""A line before a mail, with the date that mail programs write there."""
_FIELD = re.compile(rb">?From |[!-9;-~]+[ \t]*:")
_SEVEN_BITS = re.compile(rb"\x1b\$[@B]([!-~]*)|\x1b\(I([!-~]*)|\x1b\([BJ]")
_EIGHT_BITS = re.compile(rb"((?:[\xa1-\xfe]{2})+)|\x8e([\xa1-\xdf])")


def begins(line: bytes, after: bytes, first: bytes, *, blank: bool) -> bool:
    """Return whether a line begins a mail; where the ``first`` has a date, all do, or are bare."""
    known = ENVELOPE.match(line) if ENVELOPE.match(first) and line.strip() != b"From" else blank
    return bool(known) and _FIELD.match(after) is not None


def mails(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each line of an mbox file, and whether a mail begins there."""
    first, before, held = b"", b"\n", b""
    for line in lines:
        if held:
            starts = held.startswith(BEGIN) and (
                not first or begins(held, line, first, blank=not before.strip())
            )
            first = first or (held if starts else b"")
            yield held, starts
            before = held
        held = line if held else line.removeprefix(codecs.BOM_UTF8)
    if held:
        yield held, held.startswith(BEGIN) and not first


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
            found.append(str(make_header([_chunk(*chunk) for chunk in decode_header(raw)])))
        except (HeaderParseError, LookupError, ValueError) as exc:
            problems.append(f"its {name} cannot be decoded ({exc})")
            found.append(whole)
    return clean(" ".join(found))


def moment(text: str, problems: list[str]) -> int | None:
    """Read a date: microseconds since 1970 UTC; one that names no zone (-0000) is in UTC."""
    try:
        when = parsedate_to_datetime(text)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 1_000_000
    except (ValueError, TypeError, OverflowError, IndexError):
        problems.append(f"its date {text!r} cannot be read" if text else "it has no date")
        return None


def texts(mail: Message, problems: list[str]) -> list[str]:
    """Return the texts of a mail without attachments; of alternatives, plain or else the last."""
    if not mail.is_multipart():
        return _leaf(mail, problems)
    parts = [part for part in mail.get_payload() if isinstance(part, Message)]
    if mail.get_content_subtype() != "alternative":
        return [text for part in parts for text in texts(part, problems)]
    plain = [part for part in parts if part.get_content_type() == "text/plain"]
    for part in (*plain, *reversed([part for part in parts if part not in plain])):
        if found := texts(part, problems):
            return found
    return []


def clean(text: str) -> str:
    """Replace halves of surrogate pairs, and write line ends one way."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole.replace("\r\n", "\n").replace("\r", "\n")


def decoded(data: bytes, label: str) -> tuple[str, bool]:
    """Decode bytes as mail programs do; the second tells whether they are what the label says."""
    codec = _codec(label)
    known = codec or codecs.lookup("cp1252")
    for one in filter(None, (codec, codecs.lookup("utf-8"))):
        try:
            return one.decode(data, "strict")[0], one is codec
        except ValueError:
            if codec and one is codec and codec.name in {"iso2022_jp_ext", "euc_jp"}:
                # rows of NEC and IBM, which Python has in its codec cp932 alone
                escaped = _SEVEN_BITS if codec.name == "iso2022_jp_ext" else _EIGHT_BITS
                return escaped.sub(_shifted, data).decode("cp932", "replace"), True
    return known.decode(data, "replace")[0], False


def _leaf(part: Message, problems: list[str]) -> list[str]:
    """Return the text of a part that holds no others, unless it is attached or blank."""
    kind = part.get_content_type()
    if part.get_content_disposition() == "attachment":
        return []
    if kind not in {"text/plain", "text/html"} and part.get_content_maintype() != "multipart":
        return []
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    meta = _META.search(data, 0, HEAD_BYTES) if kind == "text/html" else None
    label = part.get_content_charset(meta[1].decode() if meta else NO_LABEL)
    text, is_so = decoded(data, label)
    if not is_so:
        problems.append(f"its text is not {label}, as it says")
    text = clean(text)
    if kind == "text/html":
        text = words(text)
        problems.append("the words of its text/html were taken")
    return [text] if any(one.isprintable() and not one.isspace() for one in text) else []


def _chunk(word: bytes | str, label: str | None) -> tuple[bytes | str, str | None]:
    """Decode a word of a header."""
    if label is None or isinstance(word, str):
        return word, label
    if label != "unknown-8bit" and _codec(label) is None:
        raise LookupError(f"{label} is not a charset")
    return decoded(word, label)[0].encode("utf-8", "replace"), "utf-8"


@cache
def _codec(label: str) -> codecs.CodecInfo | None:
    """Find a charset: ASCII is read as UTF-8, which holds it. None where it is not known."""
    try:
        known = webencodings.lookup(label)
        codec = known.codec_info if known else codecs.lookup(label)
        if label == NO_LABEL:
            return codecs.lookup("utf-8")
        if codec.name in NO_CHARSETS or (not known and "".encode(label)):
            return None
        return codecs.lookup(WIDER.get(codec.name, codec.name))
    except (LookupError, ValueError):
        return None


def _shifted(found: re.Match[bytes]) -> bytes:
    """Write pairs of JIS X 0208, or kana of one byte, as Shift JIS does."""
    pairs, *kana = found.groups(b"")
    shifted = bytearray()
    for row, cell in zip(pairs[::2], pairs[1::2], strict=False):
        high, low = row & 0x7F, cell & 0x7F
        shifted.append((high - 0x21) // 2 + (0x81 if high < 0x5F else 0xC1))  # noqa: PLR2004  the lead bytes leave out the kana
        shifted.append(low + 0x7E if high % 2 == 0 else low + 0x1F + (low >= 0x60))  # noqa: PLR2004  0x7F is left out
    return bytes(shifted) + bytes(one | 0x80 for one in b"".join(kana))
