"""Servers: their address, connections within bounds, and signals that end them."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import anyio
from anyio import CancelScope, Event
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness.core.errors import HarnessError, first_of

if TYPE_CHECKING:
    import uvicorn


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


CONNECTIONS = 1024
"""Open at once, of a server that a load balancer or programs use."""
BACKLOG = 4096
"""Connections that the system queues before they are accepted, as far as it allows."""


@contextmanager
def bound(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Take a port, and say how it is reached.

    Raises:
        HarnessError: the host is not an address in numbers, or the port is taken.
    """
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
    except ValueError:
        raise HarnessError(f"{host} is not an address in numbers, as 127.0.0.1 or ::1") from None
    with socket.socket(family) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
        except (OSError, OverflowError) as exc:
            raise HarnessError(f"cannot serve on {host} port {port}: {exc}; name another") from exc
        opened.listen(BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        yield opened, f"http://{shown}:{opened.getsockname()[1]}"


def server(app: ASGIApp, connections: int | None = None) -> uvicorn.Server:
    """Make a server of an application; an answer has no header that this one did not give it.

    Where clients hold more than so many connections, those without a whole request are closed.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        http=bounded(connections) if connections else BoundedProtocol,
        server_header=False,
        date_header=False,
    )
    return uvicorn.Server(config)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Serve = Callable[[], Awaitable[None]]


def run_until_signalled(serve: Serve) -> None:
    """Run a server; SIGINT, SIGTERM and SIGHUP call it off, and more of them change nothing.

    Python would raise an interrupt in whichever task runs just then. What ``nohup`` has made deaf
    stays so.

    Raises:
        KeyboardInterrupt: a signal came, whatever broke because of it.
        HarnessError: what serves called ``exit``, whose code is a verdict's.
        Exception: the first of the failures that ended the server.
    """
    if threading.current_thread() is not threading.main_thread():
        anyio.run(serve)
        return
    ending = _Ending()
    try:
        anyio.run(ending.heard_by, serve)
    except BaseException as exc:  # noqa: BLE001  what was called off may break in any way
        if not ending.came:
            raise _told(exc) from None
    finally:
        ending.settle()
    if ending.came:
        raise KeyboardInterrupt


class _Ending:
    """Hears signals from the start of a server on; those after the first are the same one."""

    def __init__(self) -> None:
        self.came = False
        self._before = {one: signal.getsignal(one) for one in ENDING}

    async def heard_by(self, serve: Serve) -> None:
        """Run ``serve``, and call it off when a signal comes."""
        wake, called_off = get_running_loop().call_soon_threadsafe, Event()

        def hear(_: int, __: FrameType | None) -> None:
            if not self.came:
                self.came = True
                with suppress(RuntimeError):  # the loop has closed: the server is at its end
                    wake(called_off.set)

        for one, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(one, hear)
        async with anyio.create_task_group() as group:
            group.start_soon(_ends, called_off, group.cancel_scope)
            await serve()
            group.cancel_scope.cancel()

    def settle(self) -> None:
        """Give signals back to whoever had them; where one came, the program is about to end."""
        if not self.came:
            for one, handler in self._before.items():
                signal.signal(one, handler)


async def _ends(called_off: Event, scope: CancelScope) -> None:
    await called_off.wait()
    scope.cancel()


def _told(exc: BaseException) -> BaseException:
    """Give the first failure; its own traceback says where it came from."""
    first = first_of(exc)
    if isinstance(first, SystemExit):
        return HarnessError(f"what serves called exit({first.code!r}). Correct it, and start again")
    return first
