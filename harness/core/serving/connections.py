"""Connections within bounds: one without a whole request gives its place to one that has one.

Without that, as many silent connections or half requests as are allowed keep everyone else out.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 128
"""Open at once, idle ones among them."""
GRACE_S = 1.0
"""Seconds that a connection may wait in any case: its request may be on its way."""
REQUEST_S = 10.0
"""Seconds in which a request comes whole: from the connection on, or from its first byte."""


class BoundedProtocol(H11Protocol):
    """One connection; where there are too many, those that have waited longest are closed."""

    most: int | None = None
    """Connections open at once; None for ``MAX_CONNECTIONS``."""
    since = 0.0
    """When it was opened, or was last answered."""
    late: asyncio.TimerHandle | None = None
    """Closes it unless the request that has begun comes whole in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and close waiting ones where there are too many."""
        super().connection_made(transport)
        self.since = monotonic()
        self.late = self.loop.call_later(REQUEST_S, self.transport.close)
        too_many = len(self.connections) - (self.most or MAX_CONNECTIONS)
        if too_many > 0:
            for one in self._waiting()[:too_many]:
                one.transport.close()

    def data_received(self, data: bytes) -> None:
        """Give a request that begins so much time to come whole."""
        super().data_received(data)
        if not self.waits:
            self._in_time()
        elif self.late is None:
            self.late = self.loop.call_later(REQUEST_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let no timer outlive the connection."""
        self._in_time()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Note when a connection began to wait for its next request."""
        self.since = monotonic()
        super().on_response_complete()

    @property
    def waits(self) -> bool:
        """Tell whether it has no whole request that is still to be answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _waiting(self) -> list[BoundedProtocol]:
        """List connections that have waited for a while, the longest first."""
        bounded = (one for one in self.connections if isinstance(one, BoundedProtocol))
        found = (one for one in bounded if one.waits and monotonic() - one.since >= GRACE_S)
        return sorted(found, key=lambda one: one.since)

    def _in_time(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None


def bounded(most: int) -> type[BoundedProtocol]:
    """Give the protocol of a server that may have so many connections open."""
    return type("BoundedProtocol", (BoundedProtocol,), {"most": most})
