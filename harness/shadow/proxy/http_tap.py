"""What a connection carries, read beside it: requests and answers, without changing a byte.

The bytes are relayed as they come; h11 reads a copy of them. From where they cannot be read, or the
two sides agree on another protocol (RFC 9110, section 7.8), the connection is blind: relayed, and
not compared. No byte waits for what is read, but for the end of a head, which may be changed.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import h11

from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_head import HEAD_BYTES, Head, begins, end_of, read_head
from harness.shadow.proxy.http_link import Link

CUT = "the connection ended before the answer did"
UNREAD_ANSWER = "an answer of the control cannot be read"
_EMPTY_LINES = re.compile(rb"[\r\n]*")


class Lost(NamedTuple):
    """From here on, a client's bytes cannot be read."""

    raw: bytes
    why: str


Piece = Head | Lost | bytes


class Requests:
    """Cuts what a client sends into heads and all else, in order and without loss.

    A head is held back until it is whole. At most ``keep`` bytes and one part of a body are kept.
    What comes before the answer to an offer of another protocol can be of either: it is relayed and
    not read, but read where ``strict``.
    """

    def __init__(self, keep: int, *, strict: bool = False) -> None:
        self._keep, self._strict = keep, strict
        self._body = _reader(h11.SERVER)
        self._held = b""
        self._open: Exchange | None = None
        self._last: Exchange | None = None
        self._whole: list[Exchange] = []
        self.blind = False

    @property
    def begun(self) -> bool:
        """Whether a request was begun and is not whole."""
        return bool(self._held) or self._open is not None

    @property
    def in_head(self) -> bool:
        """Whether a head was begun and is not whole."""
        return bool(self._held)

    @property
    def switching(self) -> bool:
        """Whether what comes next may be of another protocol, as the control will say."""
        return self._last is not None and self._last.switches and not self._last.status

    def passed(self, at: int) -> None:
        """Note that the requests that became whole were passed on ``at``."""
        for exchange in self._whole:
            exchange.passed_ns = at
            exchange.timed = exchange.timed and not exchange.status
        self._whole.clear()

    def release(self) -> bytes:
        """Read no more, and give what was held back."""
        self.blind = True
        held, self._held, self._open = self._held, b"", None
        return held

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Take what came, and give what can be relayed now."""
        while data and not self.blind:
            if self._open is not None:
                data = yield from self._through_body(self._open, data)
                continue
            if self.switching and not self._strict:
                self.blind = True
                break
            if not self._held and (empty := _EMPTY_LINES.match(data)) and empty[0]:
                yield empty[0]
                data = data[empty.end() :]
                continue
            seen, held = len(self._held), self._held + data
            self._held = held
            end = end_of(held, seen)
            if not begins(held) or (len(held) > HEAD_BYTES and not end):
                yield Lost(self.release(), "it is not a request of HTTP/1, or its head is too long")
                return
            if not end:
                return
            data, self._held = held[end:], b""
            yield self._begin(read_head(held[:end]))
        if data:
            yield data

    def _begin(self, head: Head) -> Head:
        self._last = exchange = head.exchange
        if not head.framing and not head.unread:
            self._whole.append(exchange)
            return head
        try:
            self._body = _reader(h11.SERVER)
            self._body.receive_data(
                b"%s / HTTP/1.1\r\nhost: any\r\n%s\r\n"
                % (exchange.method.encode("ascii"), head.framing)
            )
            self._body.next_event()
            self._open = exchange
            self.blind = bool(head.unread)
        except h11.RemoteProtocolError as exc:
            self.blind = True
            return head._replace(unread=str(exc))
        return head

    def _through_body(self, exchange: Exchange, data: bytes) -> Generator[Piece, None, bytes]:
        """Keep the body; give what came after the end of the request."""
        try:
            self._body.receive_data(data)
            while True:
                event = self._body.next_event()
                if isinstance(event, h11.Data):
                    if len(exchange.body) <= self._keep:
                        exchange.body += event.data
                    continue
                after = b""
                if isinstance(event, h11.EndOfMessage):
                    after = self._body.trailing_data[0]
                    self._whole.append(exchange)
                    self._open = None
                if relayed := data[: len(data) - len(after)]:
                    yield relayed
                return after
        except h11.RemoteProtocolError as exc:
            self.release()
            exchange.unread = f"a request's body cannot be read: {exc}"
            yield Lost(data, exchange.unread)
            return b""


class Answers:
    """Reads what a server sends, and tells which exchanges it ends."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._read: h11.Connection | None = None
        self._before = 0
        self.waiting: deque[Exchange] = deque()
        """Requests that were relayed and are not answered, oldest first."""
        self.blind = False
        self.switched = False
        """Whether the two sides agreed on another protocol."""

    @property
    def begun(self) -> bool:
        """Whether a part of an answer came, and not its end."""
        return self._read is not None

    def feed(self, data: bytes, at: int) -> list[Exchange]:
        """Take what came ``at``, by the control's clock; give the exchanges that it ends."""
        ended: list[Exchange] = []
        while data and not self.blind:
            if not self.waiting:
                self.blind = True
                break
            exchange = self.waiting[0]
            try:
                data = self._through_answer(exchange, data, at, ended)
            except Exception as exc:  # noqa: BLE001  whatever came, it is relayed
                self.blind, self.switched = True, exchange.switches
                for each in self.waiting:
                    each.unread = f"{UNREAD_ANSWER}: {exc}"
                ended += self.waiting
                self.waiting.clear()
        return ended

    def end(self, error: str = CUT, at: int = 0) -> list[Exchange]:
        """Tell that no more comes; give all exchanges that wait, whole or with ``error``."""
        ended: list[Exchange] = []
        if self._read is not None and self.waiting and error == CUT:
            with suppress(h11.RemoteProtocolError):
                self._through_answer(self.waiting[0], b"", at, ended)
        for exchange in self.waiting:
            exchange.error = error
            ended.append(exchange)
        self.waiting.clear()
        return ended

    def stalled(self) -> None:
        """Note that the control may have gone on while the client did not take its answer."""
        for exchange in self.waiting:
            exchange.timed = exchange.timed and exchange.status > 0

    def _through_answer(
        self, exchange: Exchange, data: bytes, at: int, ended: list[Exchange]
    ) -> bytes:
        if self._read is None:
            self._read = _reads_answer(exchange.method)
        self._read.receive_data(data)
        while True:
            event = self._read.next_event()
            if isinstance(event, h11.Response):
                exchange.status = event.status_code
                exchange.timed = exchange.timed and exchange.passed_ns > 0
                exchange.encoding = ",".join(
                    value.decode("latin-1")
                    for name, value in event.headers
                    if name == b"content-encoding"
                )
            elif isinstance(event, h11.Data):
                if len(exchange.answer) <= self._keep:
                    exchange.answer += event.data
            elif isinstance(event, h11.EndOfMessage):
                exchange.ended(at, self._before)
                self._before = at
                ended.append(self.waiting.popleft())
                after = self._read.trailing_data[0]
                self._read = None
                return after
            elif not isinstance(event, h11.InformationalResponse):
                if self._read.their_state is h11.SWITCHED_PROTOCOL:
                    self.blind = self.switched = True
                    self.waiting.popleft()
                return b""


def _reader(role: type[h11.CLIENT | h11.SERVER]) -> h11.Connection:
    return h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)


def _reads_answer(method: str) -> h11.Connection:
    """Make a reader for the answer to one request; where it ends depends on the method alone.

    A control may change the protocol whatever it was sent, so each reader takes such an answer.
    """
    made = _reader(h11.CLIENT)
    offers = [("host", "any"), ("connection", "upgrade"), ("upgrade", "any")]
    made.send(h11.Request(method=method, target="/", headers=offers))
    made.send(h11.EndOfMessage())
    return made


class Patience:
    """Reads from a client, and gives up one whose head is not whole in time.

    The time is that of the whole head, so bytes that trickle win no more of it. Between requests
    and in bodies a client may take its time, and what was not read as a request has none.
    """

    def __init__(self, client: Link, head_s: float) -> None:
        self._client, self._head_s = client, head_s
        self._until: float | None = monotonic() + head_s

    async def read(self, requests: Requests) -> tuple[Piece, ...] | None:
        """Give what can be relayed of what a client sends next; None at its end.

        Raises:
            OSError: the client reset the connection.
            TimeoutError: it took too long.
        """
        try:
            left = None if self._until is None else max(self._until - monotonic(), 0)
            async with asyncio.timeout(left):
                data = await self._client.read()
        except TimeoutError:
            if not requests.blind:
                raise
            self._until = None
            return ()
        if not data:
            return None
        begun = requests.in_head and self._until is not None
        pieces = tuple(requests.feed(data))
        if not requests.in_head:
            self._until = None
        elif not begun or any(isinstance(piece, Head) for piece in pieces):
            self._until = monotonic() + self._head_s
        return pieces
