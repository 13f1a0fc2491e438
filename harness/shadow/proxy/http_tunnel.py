"""One client's connection and its own connection to the control, end to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter_ns

from harness.shadow.live.side import told
from harness.shadow.proxy.http_control import Control, Refused
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_head import Head
from harness.shadow.proxy.http_link import Link
from harness.shadow.proxy.http_own import UNREACHABLE, last_words, refusal
from harness.shadow.proxy.http_tap import UNREAD_ANSWER, Answers, Patience, Piece, Requests

STALL_NS = 1_000_000
"""A client that takes its answer later than this keeps the proxy from timing the next one."""
LEFT = "the client left before it was answered"
STOPPED = "the proxy was stopped before it was answered"


class Tunnel:
    """Relays one connection until either side ends it, and tells of each exchange.

    A client has a connection to the control of its own, opened with its first request. So order,
    framing, trailers, interim answers, upgrades, ends and resets are those of the two sides. A slow
    client slows no other, and no request waits for a connection that another one holds.
    """

    def __init__(
        self,
        client: Link,
        control: Control,
        *,
        head_s: float,
        keep: tuple[int, int],
        ended: Callable[[Exchange], None],
        untaken: Callable[[Exchange, str], None],
    ) -> None:
        self._client = client
        self._control = control
        self._head_s = head_s
        self._requests = Requests(keep[0], strict=bool(control.prefix))
        self._answers = Answers(keep[1])
        self._ended, self._untaken = ended, untaken
        self._server: Link | None = None
        self._down: asyncio.Task[None] | None = None
        self._clock = Clock()
        self._answered = asyncio.Event()
        self._last = False
        """Whether it ends with what is on its way."""
        self._silent = False
        """Whether the control has ended its side."""
        self._left = LEFT
        self.changed: Callable[[Tunnel], None] = lambda _: None
        """Told when the tunnel begins or ends to be idle."""

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way, and the client has taken what was sent to it."""
        blind = self._requests.blind or self._answers.blind
        busy = self._requests.begun or self._answers.waiting or blind
        return self._client.sent and (self._silent or not busy)

    def finish(self) -> None:
        """End when what is on its way has arrived; at once where nothing is."""
        self._last, self._left = True, STOPPED
        if self.idle:
            self.close()

    def close(self) -> None:
        """End now, in order."""
        self._client.close()
        if self._server is not None:
            self._server.close()

    async def run(self) -> None:
        """Relay until one side ends it."""
        try:
            if await self._up() and self._down is not None and not self._client.lost:
                await self._down
        except TimeoutError:
            self._client.close()
        except OSError:
            if self._server is not None:
                self._server.reset()
        except asyncio.CancelledError:
            self._client.reset()
            raise
        finally:
            for exchange in self._answers.end(self._left):
                self._untaken(exchange, self._left)
            if self._down is not None:
                self._down.cancel()
            self.close()

    async def _up(self) -> bool:
        """Relay what the client sends; False where it got the proxy's own answer."""
        patience = Patience(self._client, self._head_s)
        while (pieces := await patience.read(self._requests)) is not None:
            if not await self._pass_on(pieces):
                return False
            self._requests.passed(self._clock.now())
            self.changed(self)
            if self._server is not None:
                await self._server.drain()
            while self._control.prefix and self._requests.switching and self._going:
                await self._next_answer()
        if self._server is not None and not self._server.end():
            self._last = True
            if self.idle:
                self.close()
        return True

    @property
    def _going(self) -> bool:
        """Whether the control may still send."""
        return self._down is not None and not self._down.done()

    async def _pass_on(self, pieces: tuple[Piece, ...]) -> bool:
        """Relay what a client sent; False where it got the proxy's own answer instead."""
        for at, piece in enumerate(pieces):
            try:
                data = self._control.relayed(piece)
            except Refused as exc:
                await self._refuse(piece, str(exc))
                return False
            if self._server is None:
                try:
                    self._server = await self._control.dial()
                except (OSError, TimeoutError) as exc:
                    await self._unreachable(pieces[at:], told(exc))
                    return False
                self._down = asyncio.create_task(self._relay_answers(self._server))
            self._expect(piece)
            self._server.write(data)
        return True

    def _expect(self, piece: Piece) -> None:
        """Wait for an answer to a request, or say that it is not compared."""
        if not isinstance(piece, Head):
            return
        if piece.unread:
            self._untaken(piece.exchange, f"a request cannot be read: {piece.unread}")
        elif self._answers.blind:
            self._untaken(piece.exchange, UNREAD_ANSWER)
        else:
            self._answers.waiting.append(piece.exchange)

    async def _refuse(self, piece: Piece, why: str) -> None:
        """Answer 400, after all that was asked before is answered."""
        if isinstance(piece, Head):
            self._untaken(piece.exchange, f"a request was refused: {why}")
        self._requests.passed(self._clock.now())
        waiting = self._answers.waiting
        with suppress(TimeoutError):
            async with asyncio.timeout(self._head_s):
                while waiting and waiting[0].passed_ns and self._going:
                    await self._next_answer()
        if self._down is not None:
            self._down.cancel()
        if waiting and waiting[0].status:
            self._client.reset()
        await last_words(self._client, refusal(why), self._head_s)

    async def _unreachable(self, pieces: tuple[Piece, ...], error: str) -> None:
        """Say that the control cannot be reached, when the request is whole or late."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._head_s):
                while True:
                    for piece in pieces:
                        self._expect(piece)
                    if self._requests.blind or not self._requests.begun:
                        break
                    if not (data := await self._client.read()):
                        break
                    pieces = tuple(self._requests.feed(data))
        self._over(self._answers.end(error))
        await last_words(self._client, UNREACHABLE, self._head_s)

    async def _next_answer(self) -> None:
        self._answered.clear()
        await self._answered.wait()

    async def _relay_answers(self, server: Link) -> None:
        """Relay what the control sends."""
        try:
            while data := await server.read():
                self._client.write(data)
                ended = self._answers.feed(data, self._clock.now())
                if self._answers.switched:
                    server.write(self._requests.release())
                await self._taken()
                self._over(ended)
                if self._client.lost:
                    return
                if self._last and self.idle:
                    self.close()
                    return
            ended = self._answers.end(at=self._clock.now())
            self._client.end()
            self._silent = True
            self._over(ended)
        except OSError as exc:
            self._over(self._answers.end(told(exc)))
            self._client.reset()
        finally:
            self._answered.set()

    async def _taken(self) -> None:
        """Wait until the client takes its answer; that is not the control's time."""
        if self._client.sent:
            return
        self.changed(self)
        before = self._clock.stalled
        with self._clock.stall():
            await self._client.drain()
        if self._clock.stalled - before > STALL_NS:
            self._answers.stalled()

    def _over(self, ended: list[Exchange]) -> None:
        for exchange in ended:
            if exchange.unread:
                self._untaken(exchange, exchange.unread)
            else:
                self._ended(exchange)
        self._answered.set()
        self.changed(self)


class Clock:
    """Nanoseconds, always above 0, without those of stalls."""

    def __init__(self, ticks: Callable[[], int] = perf_counter_ns) -> None:
        self._ticks = ticks
        self._start = ticks() - 1
        self.stalled = 0
        """Nanoseconds of all stalls."""
        self._since = 0

    def now(self) -> int:
        """Give the time; it stands still during a stall."""
        return (self._since or self._ticks()) - self._start - self.stalled

    @contextmanager
    def stall(self) -> Iterator[None]:
        """Stand still."""
        self._since = self._ticks()
        try:
            yield
        finally:
            self.stalled += self._ticks() - self._since
            self._since = 0
