"""A proxy before a search server: the client gets the server's bytes, and a candidate the query.

Every client has a connection to the control of its own (``http_tunnel``), so the proxy adds no
pool, no queue and no rule about what a request may look like. It bounds what clients may hold: so
many connections, and so long for a head to come. Where all are taken, the one that was idle for
longest makes room; where none is idle, new ones wait in the system's queue, in order.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from harness.core.printable import counted
from harness.shadow.proxy.http_control import PORTS, Control, checked, control_at
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_link import Link
from harness.shadow.proxy.http_tunnel import Tunnel
from harness.shadow.proxy.listening import bound
from harness.shadow.proxy.reading import Reading

HEAD_S = 20.0
"""How long a head may take to come."""
STOP_S = 30.0
"""How long a stop waits for answers in progress; clients that take longer are cut off."""
SPARE_FILES = 128
"""Open files that are not connections."""
PAUSE_S = 0.05


class Takes(Protocol):
    """Takes exchanges to be compared; none of its methods but the first and the last waits."""

    def start(self) -> None:
        """Be ready to take."""

    def put(self, exchange: Exchange) -> None:
        """Take an exchange that is over, well or not."""

    def untaken(self, exchange: Exchange, why: str) -> None:
        """Count an exchange that cannot be compared."""

    def close(self) -> None:
        """Return when all that was taken is offered to the comparison."""


class Room(NamedTuple):
    """What clients may hold, and for how many seconds."""

    connections: int
    head_s: float = HEAD_S
    stop_s: float = STOP_S


@dataclass(slots=True)
class Running:
    """A proxy that serves, as whoever stops it sees it."""

    url: str
    stop: Callable[[], object]
    """End in order: no new connection, what is on its way arrives; may be called on any thread."""


class Proxy:
    """Accepts clients, one tunnel each."""

    def __init__(
        self,
        control: Control,
        reading: Reading,
        offers: Takes,
        room: Room,
    ) -> None:
        self._control, self._offers, self._room = control, offers, room
        self._keep = reading.bounds.request_bytes, reading.bounds.answer_bytes
        self._tunnels: dict[Tunnel, asyncio.Task[None]] = {}
        self._idle: dict[Tunnel, None] = {}
        """In the order in which they became idle."""
        self._freed = asyncio.Event()

    async def serve(self, opened: socket.socket, stopping: asyncio.Event) -> int:
        """Serve until told to stop, and then until what is on its way has arrived.

        Gives how many connections were cut off, because that took too long.
        """
        opened.settimeout(0)
        accepting = asyncio.create_task(self._accept(opened))
        await stopping.wait()
        accepting.cancel()
        opened.close()
        for tunnel in list(self._tunnels):
            tunnel.finish()
        if self._tunnels:
            await asyncio.wait(self._tunnels.values(), timeout=self._room.stop_s)
        cut = sum(not tunnel.idle for tunnel in self._tunnels)
        for task in list(self._tunnels.values()):
            task.cancel()
        await asyncio.gather(*self._tunnels.values(), return_exceptions=True)
        return cut

    async def _accept(self, opened: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await _readable(opened)
            await self._make_room()
            try:
                client, _ = await loop.sock_accept(opened)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _, link = await loop.connect_accepted_socket(Link, client)
                self._start(link)
            except OSError:
                await asyncio.sleep(PAUSE_S)

    async def _make_room(self) -> None:
        while len(self._tunnels) >= self._room.connections:
            self._freed.clear()
            if self._idle:
                next(iter(self._idle)).close()
            await self._freed.wait()

    def _start(self, client: Link) -> None:
        tunnel = Tunnel(
            client,
            self._control,
            head_s=self._room.head_s,
            keep=self._keep,
            ended=self._offers.put,
            untaken=self._offers.untaken,
        )
        tunnel.changed = self._note
        self._idle[tunnel] = None
        task = asyncio.create_task(tunnel.run())
        self._tunnels[tunnel] = task
        task.add_done_callback(lambda _: self._forget(tunnel))

    def _note(self, tunnel: Tunnel) -> None:
        self._idle.pop(tunnel, None)
        if tunnel.idle:
            self._idle[tunnel] = None
            self._freed.set()

    def _forget(self, tunnel: Tunnel) -> None:
        self._idle.pop(tunnel, None)
        self._tunnels.pop(tunnel, None)
        self._freed.set()


async def _readable(opened: socket.socket) -> None:
    """Wait until a client does, so that room is made for one and not before."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(opened, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(opened)


def serve(
    server: str,
    reading: Reading,
    offers: Takes,
    at: tuple[str, int],
    ready: Callable[[Running], object],
    *,
    room: Room,
    tell: Callable[[str], object],
) -> None:
    """Serve at host and port until interrupted or stopped; ``ready`` is told where.

    Returns when ``offers`` took every exchange and is closed. ``tell`` is told what a stop cut off.

    Raises:
        HarnessError: the control's address is invalid, the host is not an address in numbers, or
            the port is taken; or ``offers`` does not start, or did not take all.
    """
    url = checked(server)
    with bound(*at) as (opened, here):
        cut = asyncio.run(_serve(url, here, reading, offers, opened, ready, room))
    if cut:
        tell(cut_off(cut, room.stop_s))


async def _serve(  # noqa: PLR0917  the parts that ``serve`` made
    url: SplitResult,
    here: str,
    reading: Reading,
    offers: Takes,
    opened: socket.socket,
    ready: Callable[[Running], object],
    room: Room,
) -> int:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, RuntimeError):  # only the main thread hears signals
            loop.add_signal_handler(number, stopping.set)
    control = control_at(url, _names(here), reading.bounds.timeout_s)
    offers.start()
    try:
        ready(Running(here, lambda: loop.call_soon_threadsafe(stopping.set)))
        return await Proxy(control, reading, offers, room).serve(opened, stopping)
    finally:
        offers.close()


def all_room(each: int = 2) -> Room:
    """Give as much room as this process may have open files, ``each`` for a client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return Room(max((soft - SPARE_FILES) // each, 1))


def cut_off(count: int, stop_s: float) -> str:
    """Say what a stop cut off."""
    many = counted(count, "connection was")
    return f"{many} cut off: answers in progress were not delivered within {stop_s:g} s of the stop"


def _names(here: str) -> frozenset[bytes]:
    """Name the proxy as its clients may."""
    port = urlsplit(here).port
    hosts = {urlsplit(here).netloc.rpartition(":")[0], "localhost", "127.0.0.1", "[::1]"}
    ports = [f":{port}", ""] if port == PORTS["http"] else [f":{port}"]
    return frozenset(f"{host}{end}".encode("ascii") for host in hosts for end in ports)
