"""Where the server is, and how a request is addressed to it."""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from functools import cache
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from harness.core.errors import HarnessError
from harness.shadow.proxy.http_head import Head
from harness.shadow.proxy.http_link import Link
from harness.shadow.proxy.http_tap import Lost, Piece

PORTS = {"http": 80, "https": 443}
_HOST = re.compile(rb"(?im)^(host[ \t]*:[ \t]*)([^\r\n]*?)([ \t]*\r?)$")
_UPGRADE = re.compile(rb"(?im)^upgrade[ \t]*:[ \t]*([^\r\n]*?)[ \t]*\r?\n")


class Refused(Exception):
    """A request whose path cannot be put below the control's."""


@dataclass(frozen=True, slots=True)
class Control:
    """The server behind a proxy."""

    host: str
    port: int
    tls: bool
    prefix: bytes
    """Of every path; empty for most. No client reaches a path that is not below it."""
    ours: frozenset[bytes]
    """Names of the proxy itself; a request that names one of them names the control instead."""
    connect_s: float

    @property
    def name(self) -> bytes:
        """What a client of its own would call it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == PORTS["https" if self.tls else "http"]
        return (host if usual else f"{host}:{self.port}").encode("ascii")

    async def dial(self) -> Link:
        """Connect.

        Raises:
            OSError: it cannot be reached, or not in time.
        """
        loop, tls = asyncio.get_running_loop(), _trusted() if self.tls else None
        async with asyncio.timeout(self.connect_s):
            return (await loop.create_connection(Link, self.host, self.port, ssl=tls))[1]

    def relayed(self, piece: Piece) -> bytes:
        """Give what the control is to have of what a client sent.

        Raises:
            Refused: the control has a path, and this could reach another one.
        """
        if isinstance(piece, Head):
            return self.addressed(piece)
        if isinstance(piece, Lost):
            if self.prefix:
                raise Refused(piece.why)
            return piece.raw
        return piece

    def addressed(self, head: Head) -> bytes:
        """Give the head as the control is to have it: the client's own, but for our own name.

        Any other name passes as it is, so that a server which refuses it can do so.

        Raises:
            Refused: the control has a path, and this request could reach another one.
        """
        line = head.raw.index(b"\n") + 1
        first, rest = head.raw[:line], _HOST.sub(self._named, head.raw[line:])
        path = head.path[0]
        if self.prefix:
            self._check(head)
            first = first[:path] + self.prefix + first[path:]
            rest = _UPGRADE.sub(_websocket_alone, rest)
        low, high = head.authority
        if first[low:high].lower() in self.ours:
            first = first[:low] + self.name + first[high:]
        return first + rest

    def _named(self, found: re.Match[bytes]) -> bytes:
        name = self.name if found[2].lower() in self.ours else found[2]
        return found[1] + name + found[3]

    def _check(self, head: Head) -> None:
        """Refuse what could leave the control's path, by whatever way a server reads it."""
        low, high = head.path
        path = head.raw[low:high]
        if head.unread:
            raise Refused(f"it cannot be said where this request ends: {head.unread}")
        if not path.startswith(b"/") or re.search(rb"[\0-\x1f\x7f]", path):
            raise Refused("the address of a request must be a path")
        depth = 0
        for part in re.split(rb"[/\\]", unquote_to_bytes(path.partition(b"?")[0]))[1:]:
            name = part.partition(b";")[0]
            depth += -1 if name == b".." else name not in {b"", b"."}
            if depth < 0:
                raise Refused("the path of a request leads up")


def checked(server: str) -> SplitResult:
    """Take the address of a server.

    Raises:
        HarnessError: it is not an address, or has a query or a user, which the message leaves out.
    """
    try:
        url = urlsplit(server)
        fits = url.scheme in PORTS and url.hostname and url.port != 0
    except ValueError:
        fits = False
    if not fits or url.query or url.fragment or "@" in url.netloc or not server.isascii():
        shown = re.sub("//.*@|[?#].*", "…", server)
        raise HarnessError(f"{shown} is not an address of a server, as http://127.0.0.1:9200")
    return url


def control_at(url: SplitResult, ours: frozenset[bytes], connect_s: float) -> Control:
    """Give the control at an address."""
    return Control(
        host=url.hostname or "",
        port=url.port or PORTS[url.scheme],
        tls=url.scheme == "https",
        prefix=url.path.rstrip("/").encode("ascii"),
        ours=ours,
        connect_s=connect_s,
    )


def _websocket_alone(found: re.Match[bytes]) -> bytes:
    """Leave out an offer of another protocol: its requests would name paths nobody checks."""
    return found[0] if found[1].lower() == b"websocket" else b""


@cache
def _trusted() -> ssl.SSLContext:
    """Read what is trusted, once: that takes longer than a search."""
    return ssl.create_default_context()
