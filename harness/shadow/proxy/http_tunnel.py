"""One client's connection and its own connection to the control, end to end."""

from __future__ import annotations

import asyncio
import re
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter_ns

from harness.shadow.live.side import told
from harness.shadow.proxy.http_tap import Answers, Exchange, Head, Requests

CHUNK = 64 * 1024
_HOST = re.compile(rb"(?im)^(host[ \t]*:[ \t]*)([^\r\n]*?)[ \t]*\r?$")
UNREACHABLE = (
    b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 30\r\nconnection: close\r\n\r\nthe server cannot be reached\r\n"
)


@dataclass(frozen=True, slots=True)
class Control:
    """Where the server is, and how requests are addressed to it."""

    host: str
    port: int
    tls: bool
    prefix: bytes
    """Of every path; empty for most."""
    ours: frozenset[bytes]
    """Names of the proxy itself; a request that names one of them names the control instead."""
    connect_s: float

    async def dial(self) -> tuple[StreamReader, StreamWriter]:
        """Connect.

        Raises:
            OSError: it cannot be reached, or not in time.
        """
        context = ssl.create_default_context() if self.tls else None
        connecting = asyncio.open_connection(self.host, self.port, ssl=context, limit=CHUNK)
        return await asyncio.wait_for(connecting, self.connect_s)

    def addressed(self, head: Head) -> bytes:
        """Give the head as the control is to have it: the client's own, but for our own name.

        Any other name passes as it is, so that a server which refuses it can do so.
        """
        raw = head.raw
        if self.prefix:
            raw = raw.replace(b" " + head.exchange.target, b" " + self._path(head), 1)
        found = _HOST.search(raw)
        if found and found[2].lower() in self.ours:
            name = f"{self.host}:{self.port}".encode("ascii")
            raw = raw[: found.start(2)] + name + raw[found.end(2) :]
        return raw

    def _path(self, head: Head) -> bytes:
        target = head.exchange.target
        return self.prefix + target if target.startswith(b"/") else target


class Tunnel:
    """Relays one connection until either side ends it, and tells of each exchange.

    A client has a connection to the control of its own, opened with its first request. So order,
    framing, trailers, interim answers and upgrades are those of the two sides, a slow client slows
    nobody else, and no request waits for a connection that another one holds.
    """

    def __init__(
        self,
        client: tuple[StreamReader, StreamWriter],
        control: Control,
        *,
        head_s: float,
        keep: tuple[int, int],
        ended: Callable[[Exchange], None],
        left: Callable[[Exchange], None],
    ) -> None:
        self._reader, self._writer = client
        self._control = control
        self._head_s = head_s
        self._requests, self._answers = Requests(keep[0]), Answers(keep[1])
        self._ended, self._left = ended, left
        self._server: tuple[StreamReader, StreamWriter] | None = None
        self._down: asyncio.Task[None] | None = None
        self._last = False
        self.changed: Callable[[Tunnel], None] = lambda _: None
        """Told when the tunnel begins or ends to be idle."""

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not (self._requests.begun or self._answers.waiting or self._blind)

    @property
    def _blind(self) -> bool:
        return self._requests.blind or self._answers.blind

    def finish(self) -> None:
        """End when what is on its way has arrived; at once where nothing is."""
        self._last = True
        if self.idle:
            self.abort()

    def abort(self) -> None:
        """End now."""
        self._writer.transport.abort()

    async def run(self) -> None:
        """Relay until one side ends it."""
        try:
            await self._up()
            if self._down is not None:
                await self._down
        except (OSError, TimeoutError):
            self.abort()
        finally:
            for exchange in self._answers.end("the client left"):
                self._left(exchange)
            if self._down is not None:
                self._down.cancel()
            for writer in (self._writer, self._server and self._server[1]):
                if writer is not None:
                    writer.close()

    async def _up(self) -> None:
        """Relay what the client sends."""
        began = False
        while True:
            patience = None if began and not self._requests.begun else self._head_s
            patience = None if self._answers.waiting or self._blind else patience
            async with asyncio.timeout(patience):
                data = await self._reader.read(CHUNK)
            if not data:
                break
            began = True
            for piece in tuple(self._requests.feed(data)):
                if isinstance(piece, Head):
                    self._answers.waiting.append(piece.exchange)
                if (server := await self._dialled()) is None:
                    return
                server.write(self._control.addressed(piece) if isinstance(piece, Head) else piece)
            if self._requests.blind:
                self._answers.blind = True
            self.changed(self)
            if self._server is not None:
                await self._server[1].drain()
        if self._server is not None and self._server[1].can_write_eof():
            self._server[1].write_eof()

    async def _dialled(self) -> StreamWriter | None:
        """Give the way to the control; None where it cannot be reached, and the client was told."""
        if self._server is None:
            try:
                self._server = await self._control.dial()
            except (OSError, TimeoutError) as exc:
                await self._refuse(told(exc))
                return None
            self._down = asyncio.create_task(self._relay_answers(self._server[0]))
        return self._server[1]

    async def _refuse(self, error: str) -> None:
        """Say that the control cannot be reached, when the request is whole or late."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._head_s):
                while self._requests.begun and (data := await self._reader.read(CHUNK)):
                    for _ in self._requests.feed(data):
                        pass
        for exchange in self._answers.end(error):
            self._ended(exchange)
        self._writer.write(UNREACHABLE)
        with suppress(OSError):
            await self._writer.drain()

    async def _relay_answers(self, server: StreamReader) -> None:
        """Relay what the control sends."""
        try:
            while data := await self._waited(server):
                ended = self._answers.feed(data)
                self._writer.write(data)
                await self._writer.drain()
                for exchange in ended:
                    self._ended(exchange)
                self.changed(self)
                if self._last and self.idle:
                    break
            for exchange in self._answers.end():
                self._ended(exchange)
        except _ControlFailed as exc:
            for exchange in self._answers.end(str(exc)):
                self._ended(exchange)
            self.abort()
        finally:
            self._writer.close()

    async def _waited(self, server: StreamReader) -> bytes:
        """Read on, and count the time against the exchange that waits for it."""
        start = perf_counter_ns()
        try:
            data = await server.read(CHUNK)
        except OSError as exc:
            raise _ControlFailed(told(exc)) from exc
        if self._answers.waiting and (exchange := self._answers.waiting[0]).requested_ns:
            exchange.waited_ns += perf_counter_ns() - max(start, exchange.requested_ns)
        return data


class _ControlFailed(Exception):
    """The connection to the control broke."""
