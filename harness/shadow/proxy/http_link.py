"""One end of a connection: what came is read before its end or its error is."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import cast

CHUNK = 64 * 1024
"""Most bytes that one read gives; twice as many may wait."""
_AT_ONCE = struct.pack("ii", 1, 0)


class Link(asyncio.Protocol):
    """Reads and writes, and tells a clean end from a reset.

    Only reads raise: what is written to a side that has left is dropped, and reading says so.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._over = False
        self._error: Exception | None = None
        self._reads, self._drained = asyncio.Event(), asyncio.Event()
        self._drained.set()
        self.lost = False
        """Whether the connection is gone in both directions."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be connected; nothing is kept back beyond what the system takes."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        """Keep what came."""
        self._came += data
        if len(self._came) > CHUNK and self._transport is not None:
            self._transport.pause_reading()
        self._reads.set()

    def eof_received(self) -> bool:
        """Note that the other side sends no more; it may still read."""
        self._over = True
        self._reads.set()
        return not self._secret

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self._over = self.lost = True
        self._error = exc
        self._reads.set()
        self._drained.set()

    def pause_writing(self) -> None:
        """Note that bytes wait to be sent."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Note that no byte waits."""
        self._drained.set()

    @property
    def sent(self) -> bool:
        """Whether the system has taken all that was written."""
        return self._drained.is_set()

    async def read(self) -> bytes:
        """Give what comes next; nothing at the end.

        Raises:
            OSError: the other side reset the connection, and all that came before was read.
        """
        await self._reads.wait()
        data = bytes(self._came[:CHUNK])
        del self._came[:CHUNK]
        if not data and self._error is not None:
            raise self._error
        if not self._came and not self._over:
            self._reads.clear()
        if self._transport is not None and not self._over and len(self._came) <= CHUNK:
            self._transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        """Send, as soon as the other side takes it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the system has taken all, or the connection is gone."""
        await self._drained.wait()

    def end(self) -> bool:
        """Send no more, and read on; False where the protocol has no such half."""
        if self._transport is None or self._secret:
            return False
        if not self._transport.is_closing():
            self._transport.write_eof()
        return True

    def close(self) -> None:
        """End in order, when what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """End at once, so that the other side cannot take it for a clean end."""
        if self._transport is None:
            return
        opened = self._transport.get_extra_info("socket")
        if opened is not None and not self.lost:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._transport.abort()

    @property
    def over(self) -> bool:
        """Whether the other side sends no more."""
        return self._over

    @property
    def _secret(self) -> bool:
        return self._transport is not None and bool(self._transport.get_extra_info("sslcontext"))
