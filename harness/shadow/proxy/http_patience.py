"""How long a client may take: for its first bytes, and from the first byte of a head to its end."""

from __future__ import annotations

import asyncio
from time import monotonic

from harness.shadow.proxy.http_head import Head
from harness.shadow.proxy.http_link import Link
from harness.shadow.proxy.http_tap import Piece, Requests


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
