"""What a connection carries, read beside it: requests and answers, without changing a byte.

The bytes are relayed as they come; h11 reads a copy of them. From where it cannot read on, or the
two sides agree on another protocol (RFC 9110, section 7.8), the connection is blind: relayed, and
not compared.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import NamedTuple

import h11

HEAD_BYTES = 256 * 1024
"""A longer head is relayed and not read."""
_HEAD_END = re.compile(rb"\r?\n\r?\n")
CUT = "the connection ended before the answer did"


@dataclass(slots=True)
class Exchange:
    """One request and what became of it; of each body no more than is compared."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """Names in lower case."""
    body: bytearray = field(default_factory=bytearray)
    requested_ns: int = 0
    """When the whole request had come, by ``perf_counter_ns``; 0 before."""
    status: int = 0
    """Of the answer; 0 before its head."""
    encoding: str = ""
    """How the answer's body is packed."""
    answer: bytearray = field(default_factory=bytearray)
    whole: bool = False
    """Whether the answer came to its end."""
    waited_ns: int = 0
    """What the control took, from the whole request to the last byte of its answer."""
    error: str = ""

    def header(self, name: bytes) -> str:
        """Give a header of the request, empty where it has none."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


class Head(NamedTuple):
    """The head of a request, as it came."""

    raw: bytes
    exchange: Exchange


class Requests:
    """Cuts what a client sends into heads and all else, in order and without loss.

    A head is held back until it is whole. At most ``keep`` bytes and one part of a body are kept.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._read = _reads_requests()
        self._held = b""
        self._open: Exchange | None = None
        self.blind = False

    @property
    def begun(self) -> bool:
        """Whether a request was begun and is not whole."""
        return bool(self._held) or self._open is not None

    def feed(self, data: bytes) -> Iterator[Head | bytes]:
        """Take what came, and give what can be relayed now."""
        while data and not self.blind:
            rest = data
            try:
                self._read.receive_data(data)
                if self._open is None:
                    self._held += data
                    if (head := self._head()) is None:
                        return
                    rest, self._held = self._held[len(head.raw) :], b""
                    self._open = head.exchange
                    yield head
                data = self._through_body(self._open)
            except h11.RemoteProtocolError:
                self.blind = True
                data, self._held = self._held or rest, b""
                break
            if relayed := rest[: len(rest) - len(data)]:
                yield relayed
        if data:
            yield data

    def _head(self) -> Head | None:
        event = self._read.next_event()
        if not isinstance(event, h11.Request):
            return None
        end = _HEAD_END.search(self._held)
        if end is None:
            raise h11.RemoteProtocolError("a head without an end")
        method = event.method.decode("ascii")
        return Head(self._held[: end.end()], Exchange(method, event.target, tuple(event.headers)))

    def _through_body(self, exchange: Exchange) -> bytes:
        """Keep the body; give what came after the end of the request."""
        while True:
            event = self._read.next_event()
            if isinstance(event, h11.Data) and len(exchange.body) <= self._keep:
                exchange.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                exchange.requested_ns = perf_counter_ns()
                after = self._read.trailing_data[0]
                self._read, self._open = _reads_requests(), None
                return after
            elif not isinstance(event, h11.Data):
                return b""


class Answers:
    """Reads what a server sends, and tells which exchanges it ends."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._read: h11.Connection | None = None
        self.waiting: deque[Exchange] = deque()
        """Requests that were relayed and are not answered, oldest first."""
        self.blind = False

    def feed(self, data: bytes) -> list[Exchange]:
        """Take what came; give the exchanges that it ends."""
        ended: list[Exchange] = []
        while data and not self.blind:
            if not self.waiting:
                self.blind = True
                break
            try:
                data = self._through_answer(data, ended)
            except h11.RemoteProtocolError:
                self.blind = True
        return ended

    def end(self, error: str = CUT) -> list[Exchange]:
        """Tell that no more comes; give all exchanges that wait, whole or with ``error``."""
        ended: list[Exchange] = []
        if self._read is not None and not self.blind and error == CUT:
            with suppress(h11.RemoteProtocolError):
                self._through_answer(b"", ended)
        for exchange in self.waiting:
            exchange.error = error
            ended.append(exchange)
        self.waiting.clear()
        return ended

    def _through_answer(self, data: bytes, ended: list[Exchange]) -> bytes:
        exchange = self.waiting[0]
        if self._read is None:
            self._read = _reads_answer(exchange.method)
        self._read.receive_data(data)
        while True:
            event = self._read.next_event()
            if isinstance(event, h11.Response):
                exchange.status = event.status_code
                exchange.encoding = ",".join(
                    value.decode("latin-1")
                    for name, value in event.headers
                    if name == b"content-encoding"
                )
            elif isinstance(event, h11.Data):
                if len(exchange.answer) <= self._keep:
                    exchange.answer += event.data
            elif isinstance(event, h11.EndOfMessage):
                exchange.whole = True
                ended.append(self.waiting.popleft())
                after = self._read.trailing_data[0]
                self._read = None
                return after
            elif not isinstance(event, h11.InformationalResponse):
                self.blind = self._read.their_state is h11.SWITCHED_PROTOCOL
                return b""


def _reads_requests() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)


def _reads_answer(method: str) -> h11.Connection:
    """Make a reader for the answer to one request; where it ends depends on the method alone."""
    made = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
    made.send(h11.Request(method=method, target="/", headers=[("host", "any")]))
    made.send(h11.EndOfMessage())
    return made
