"""Connections within bounds: one that says nothing gives its place to one that asks.

Without that, as many silent connections as are allowed keep everyone else out until they close.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 128
"""Open at once, idle ones among them."""
GRACE_S = 1.0
"""Seconds that a connection may be idle in any case: its request may be on its way."""
HEAD_S = 10.0
"""Seconds in which a new connection sends its first request whole."""


class BoundedProtocol(H11Protocol):
    """One connection; where there are too many, those that have been idle longest are closed."""

    since = 0.0
    """When it was opened, or was last answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and close idle ones where there are too many."""
        super().connection_made(transport)
        self.since = monotonic()
        self.loop.call_later(HEAD_S, self._close_unless_asked)
        too_many = len(self.connections) - MAX_CONNECTIONS
        if too_many > 0:
            for one in self._idle()[:too_many]:
                one.transport.close()

    def on_response_complete(self) -> None:
        """Note when a connection began to wait for its next request."""
        self.since = monotonic()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Tell whether no request of it is being answered, and has not been for a while."""
        asked = self.cycle is not None and not self.cycle.response_complete
        return not asked and monotonic() - self.since >= GRACE_S

    def _idle(self) -> list[BoundedProtocol]:
        """List idle connections, the one that has been idle longest first."""
        others = (one for one in self.connections if isinstance(one, BoundedProtocol))
        return sorted((one for one in others if one.is_idle), key=lambda one: one.since)

    def _close_unless_asked(self) -> None:
        """Close a connection whose first request has not come whole."""
        if self.cycle is None or self.cycle.more_body:
            self.transport.close()
