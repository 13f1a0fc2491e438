"""A connection on which lists are mixed: the control's answer is held until it is whole."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from harness.shadow.live.side import told
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_head import Head
from harness.shadow.proxy.http_mixing import HttpMixer, Mixing
from harness.shadow.proxy.http_own import NOTED, failure, last_words, refusal
from harness.shadow.proxy.http_tap import Piece
from harness.shadow.proxy.http_tunnel import Tunnel
from harness.shadow.proxy.reading import Unreadable


class MixedTunnel(Tunnel):
    """Relays as any tunnel does, but for requests whose lists are mixed, and for clicks.

    A list is mixed only for a request that stands alone on its connection, and of whose answer
    nothing was sent. Until it is answered, no more is read from the client.
    """

    def __init__(self, *given: Any, mixer: HttpMixer, **named: Any) -> None:  # noqa: ANN401  of Tunnel
        super().__init__(*given, **named)
        self._mixer, self._candidate = mixer, mixer.candidate()
        self._mixing: Mixing | None = None
        self._client.when_lost = self._answered.set

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return self._mixing is None and super().idle

    async def run(self) -> None:
        """Relay until one side ends it."""
        try:
            await super().run()
        finally:
            if self._mixing is not None:
                self._mixing.cancel()
            self._candidate.close()

    async def _pass_on(self, pieces: tuple[Piece, ...]) -> bool:
        for at, piece in enumerate(pieces):
            if (
                isinstance(piece, Head)
                and not piece.unread
                and self._mixer.is_click(piece.exchange)
            ):
                if at and not await super()._pass_on(pieces[:at]):
                    return False
                await self._click(piece.exchange)
                return False
        return await super()._pass_on(pieces)

    def _passed(self) -> None:
        super()._passed()
        waiting, requests = self._answers.waiting, self._requests
        if len(waiting) != 1 or self._answers.begun or self._answers.blind:
            return
        (exchange,) = waiting
        if exchange.passed_ns and not (requests.begun or requests.blind or exchange.switches):
            self._mixing = self._mixer.begun(exchange, self._candidate)

    @property
    def _must_wait(self) -> bool:
        mixing = self._mixing is not None and not self._client.lost
        return mixing or super()._must_wait

    async def _deliver(self, data: bytes) -> list[Exchange]:
        mixing = self._mixing
        if mixing is None:
            return await super()._deliver(data)
        mixing.held += data
        ended = self._answers.feed(data, self._clock.now())
        if ended or self._answers.blind or len(mixing.held) > self._mixer.most:
            return await self._release(mixing, ended)
        return ended

    async def _deliver_end(self) -> list[Exchange]:
        ended = await super()._deliver_end()
        return ended if self._mixing is None else await self._release(self._mixing, ended)

    async def _release(self, mixing: Mixing, ended: list[Exchange]) -> list[Exchange]:
        """Send what was held back, mixed where that can be; give what is to be compared."""
        raw, shown = bytes(mixing.held), False
        if mixing.exchange in ended and not self._answers.blind:
            raw, shown = await self._mixer.sent(mixing)
        else:
            mixing.cancel()
        self._mixing = None
        self._client.write(raw)
        return [] if shown else ended

    async def _click(self, exchange: Exchange) -> None:
        """Note a click, and answer it after all that was asked before; no server sees it."""
        words = refusal("the request did not come to its end")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._head_s):
                while self._requests.begun and (data := await self._client.read()):
                    for _ in self._requests.feed(data):
                        pass
                if not self._requests.begun:
                    words = self._noted(exchange)
                self._requests.passed(self._clock.now())
                while self._answers.waiting and self._going:
                    await self._next_answer()
        if self._down is not None:
            self._down.cancel()
        await last_words(self._client, words, self._head_s)

    def _noted(self, exchange: Exchange) -> bytes:
        try:
            self._mixer.clicked(exchange)
        except Unreadable as exc:
            return refusal(str(exc))
        except OSError as exc:
            return failure(f"the click could not be written down: {told(exc)}")
        return NOTED
