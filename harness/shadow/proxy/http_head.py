"""The head of a request as servers take it, read without changing a byte.

Real servers take more than the standard allows: raw UTF-8 in an address, an empty line before the
request, odd headers. Such a head is read too. What is left unread is a head of which two servers
could differ on where its request ends.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from harness.shadow.proxy.http_exchange import Exchange

HEAD_BYTES = 256 * 1024
"""A longer head is not read."""
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_START = re.compile(_TOKEN + rb"(?:[ \t][^\r\n]*)?\r?")
_LINE = re.compile(rb"(" + _TOKEN + rb")[ \t]+([^\r\n]*?)[ \t]+HTTP/1\.([01])[ \t]*\r?\n")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\0\r\n]*?)[ \t]*")
_ABSOLUTE = re.compile(rb"(?i)https?://([^/?#]*)")
_END = re.compile(rb"\n\r?\n")
_FRAMING = (b"content-length", b"transfer-encoding")


class Head(NamedTuple):
    """The head of a request."""

    raw: bytes
    """As it came."""
    exchange: Exchange
    authority: tuple[int, int]
    """Where in ``raw`` its address names a server; empty where it names none."""
    path: tuple[int, int]
    """Where in ``raw`` the path and the query stand."""
    framing: bytes
    """The headers that say where the body ends; empty without a body."""
    unread: str
    """Why it cannot be said where its request ends; empty where it can."""


def begins(held: bytes) -> bool:
    """Tell whether these bytes may be the beginning of a head; an empty line does not count."""
    line, end, _ = held.partition(b"\n")
    return bool(_LINE.fullmatch(line + end) if end else _START.fullmatch(line) or not line)


def end_of(held: bytes, seen: int) -> int:
    """Give where a head ends, of which ``seen`` bytes were looked at before; 0 where it goes on."""
    match = _END.search(held, max(seen - 3, 0))
    return match.end() if match else 0


def read_head(raw: bytes) -> Head:
    """Read a whole head that ``begins``, with its end."""
    line = _LINE.match(raw)
    if line is None:
        raise ValueError("no head of a request")
    method, target, minor = line[1].decode("ascii"), line[2], line[3]
    low, high = line.span(2)
    named = _ABSOLUTE.match(target)
    authority = (low + named.start(1), low + named.end(1)) if named else (low, low)
    path = target[named.end() :] if named else target
    headers, unread = _fields(raw[line.end() :])
    framing = [(name, value) for name, value in headers if name in _FRAMING]
    if len({name for name, _ in framing}) > 1:
        unread = "it has a length and a transfer encoding"
    elif minor == b"0" and any(name == b"transfer-encoding" for name, _ in framing):
        unread = "it has a transfer encoding in HTTP/1.0"
    return Head(
        raw=raw,
        exchange=Exchange(method, quote_from_bytes(path, PRINTABLE).encode("ascii"), headers),
        authority=authority,
        path=(high - len(path), high),
        framing=b"".join(b"%s: %s\r\n" % one for one in framing),
        unread=unread,
    )


def _fields(raw: bytes) -> tuple[tuple[tuple[bytes, bytes], ...], str]:
    """Give the headers, and why they do not say where the body ends."""
    found, unread = [], ""
    for line in raw.split(b"\n"):
        whole = line.removesuffix(b"\r")
        if field := _FIELD.fullmatch(whole):
            found.append((field[1].lower(), field[2]))
        elif whole[:1] in {b" ", b"\t"} or any(odd in whole for odd in (b"\r", b"\0")):
            unread = "a header has a folded line or a control character"
        elif any(name in whole.lower() for name in _FRAMING):
            unread = "a header that says where the body ends is malformed"
    return tuple(found), unread
