"""A server that says what a test tells it to, byte for byte, and clients of it or of a proxy."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from harness.shadow.live.comparison import Comparison
from harness.shadow.proxy.http_proxy import Room
from tests.make.shadow.comparisons import comparison
from tests.make.shadow.servers import Server, candidate, passing

RESET = b"<reset>"
"""What a reset of the other side reads as."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FOUND = b'{"hits": {"hits": [{"_id": "ab", "_score": 9.5}]}, "timed_out": false}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(FOUND), FOUND)
SEARCH = b"GET /search?q=apple HTTP/1.1\r\nHost: search.test\r\n\r\n"
WAIT_S = 20.0


@dataclass
class Wire:
    """A server that says what it is told to, whatever it hears, and keeps what it heard."""

    says: list[bytes]
    """What it sends, in order, each after the next request's bytes came; then it hangs up."""
    hears: list[int]
    """How many bytes to wait for before each of them."""
    resets: bool = False
    part: int = 7
    """How many bytes it sends at once."""
    heard: list[bytes] = field(default_factory=list)
    """By connection."""

    def serve(self, opened: socket.socket) -> None:
        with opened:
            opened.settimeout(WAIT_S)
            at = len(self.heard)
            self.heard.append(b"")
            for most, words in zip(self.hears, self.says, strict=True):
                until = len(self.heard[at]) + most
                while len(self.heard[at]) < until:
                    part = received(opened)
                    self.heard[at] += part
                    if part in {b"", RESET}:
                        return
                for low in range(0, len(words), self.part):
                    opened.sendall(words[low : low + self.part])
            if self.resets:
                resets(opened)


Speaks = Wire | Callable[[socket.socket], None]


@contextmanager
def wired(wire: Speaks) -> Iterator[str]:
    serve = wire.serve if isinstance(wire, Wire) else wire
    with socket.create_server(("127.0.0.1", 0)) as opened:
        ending = Event()

        def accept() -> None:
            while not ending.is_set():
                try:
                    client, _ = opened.accept()
                except OSError:
                    return
                Thread(target=serve, args=(client,), daemon=True).start()

        Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        ending.set()


def said_to(url: str, sent: bytes, step: int = 11) -> bytes:
    """Send bytes in small parts, and give all that comes until the other side ends."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), WAIT_S) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for low in range(0, len(sent), step):
            opened.sendall(sent[low : low + step])
        return rest_of(opened)


def received(opened: socket.socket) -> bytes:
    try:
        return opened.recv(65536)
    except ConnectionResetError:
        return RESET


def rest_of(opened: socket.socket) -> bytes:
    """Give all that comes until the other side ends or resets the connection."""
    got = b""
    while (part := received(opened)) and part != RESET:
        got += part
    return got + part


def resets(opened: socket.socket) -> None:
    """Have the connection reset when it is closed."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: search.test", *headers, b"", b""]) + body


@contextmanager
def through(
    tmp_path: Path, wire: Speaks, room: Room | None = None, below: str = ""
) -> Iterator[tuple[str, Comparison]]:
    """Give the proxy before ``wire``, and what it offers to."""
    with (
        comparison(tmp_path, candidate(Server())) as made,
        wired(wire) as address,
        passing(address + below, made, room=room) as url,
    ):
        yield url, made


def joined(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_S)


def exactly(opened: socket.socket, count: int) -> bytes:
    """Wait for so many bytes; a socket with a time limit gives what is there, whatever is asked."""
    heard = b""
    while len(heard) < count and (part := opened.recv(count - len(heard))):
        heard += part
    return heard
