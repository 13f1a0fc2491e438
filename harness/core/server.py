"""Servers over HTTP: uvicorn with its limits, who is answered, and what a connection may hold.

The parser of heads is httptools: that of h11 takes seconds for a head of some thousand blanks.
"""

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from os import cpu_count
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from harness.core.errors import HarnessError

CONNECTIONS, FEW_CONNECTIONS = 1024, 128
"""Open at once: of a server that a load balancer or programs use, and of one for one team."""
BACKLOG = 4096
"""Connections that the system queues before they are accepted, as far as it allows."""
GRACE_S = 1.0
"""Seconds that a connection may wait in any case: its request may be on its way."""
REQUEST_S = 10.0
"""Seconds in which a request comes whole: from the connection on, or from its first byte."""
HEAD_BYTES = 65_536
"""Of a request without its body: its head, and the lengths of chunks and the trailers."""
PIPELINED, PARAMETERS = 16, 64
"""Most requests of a connection that wait, and parameters of an address."""
AT_ONCE = max(2, cpu_count() or 0)
"""Requests of one client that are answered at once; others of it wait, and no one else does."""
BEARER = "bearer "
MISDIRECTED, FORBIDDEN, UNAUTHORIZED = 421, 403, 401


@contextmanager
def bound(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Take a port, and return with it the address by which it is reached."""
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
    except ValueError:
        raise HarnessError(f"{host} is not an address in numbers, as 127.0.0.1 or ::1") from None
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as opened:  # no delay
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
        except (OSError, OverflowError) as exc:
            raise HarnessError(f"cannot serve on {host} port {port}: {exc}; name another") from exc
        opened.listen(BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        yield opened, f"http://{shown}:{opened.getsockname()[1]}"


def server(app: ASGIApp, connections: int = FEW_CONNECTIONS) -> uvicorn.Server:
    """Make a server of an application, of which clients may hold so many connections."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        http=GuardedProtocol,
        backlog=2,  # so many are accepted before those that are open have their turn
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=10,  # seconds, for requests that are being answered
    )
    return FairServer(config, connections)


class FairServer(uvicorn.Server):
    """A server that takes turns between new connections, open ones and threads that compute."""

    def __init__(self, config: uvicorn.Config, connections: int) -> None:
        super().__init__(config)
        self._most = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with the long backlog: asyncio has one number for it and for the accepted."""
        sys.setswitchinterval(0.0005)  # a thread that computes gives way after that; Python: 5 ms
        gc.freeze()  # what is loaded stays: a full collection over all of it took 140 ms
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Close connections whose request is late, and, of too many, those that waited longest."""
        found: Collection[Any] = self.server_state.connections
        now, too_many = monotonic(), max(len(found) - self._most, 0)
        late = [one for one in found if one.begun and now - one.begun >= REQUEST_S]
        idle = [one for one in found if one.waits and now - one.since >= GRACE_S]
        for one in (*late, *sorted(idle, key=lambda one: one.since)[:too_many]):
            one.transport.close()
        return await super().on_tick(counter)


class GuardedProtocol(HttpToolsProtocol):
    """A connection that tells since when it waits.

    uvicorn has no deadline for a request, no bound on its head, and closes no silent connection.
    """

    since = 0.0
    """When it was opened, or was last answered."""
    begun = 0.0
    """Since when a request comes that is not whole; 0 where none does."""
    head = 0
    """Bytes of the request that comes, without its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, whose first request is awaited."""
        super().connection_made(transport)
        transport.max_size = 16_384  # type: ignore[attr-defined]  # read in one turn
        self.since = self.begun = monotonic()

    def data_received(self, data: bytes) -> None:
        """Read what came; a request that begins has so much time and so many bytes."""
        self.head += len(data)
        super().data_received(data)
        if self.head > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        self.begun = (self.begun or monotonic()) if self.waits else 0.0

    def on_headers_complete(self) -> None:
        """Begin to answer, unless too much waits."""
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED:
            raise ValueError("too many requests at once. Wait for answers")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which is bounded by the application."""
        self.head -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request has come whole."""
        self.head = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note when a connection began to wait for its next request."""
        self.since = monotonic()
        super().on_response_complete()

    @property
    def waits(self) -> bool:
        """Check whether no whole request is left to be answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body


def refuse_streams(request: HTTPConnection) -> ASGIApp | bool:
    """Refuse to stream over MCP: a GET would wait for messages of the server, which sends none."""
    allow = {"allow": "POST"}
    return request.scope["method"] != "GET" or PlainTextResponse("nothing is streamed", 405, allow)


def refuse(status: int, why: str) -> ASGIApp:
    """Return an answer for who is not admitted."""
    asked = {"www-authenticate": "Bearer"} if status == UNAUTHORIZED else None
    return PlainTextResponse(why, status, asked)


class Admission:
    """Pass on requests for this server, from its own pages and with a token; refuse all others.

    Of an address with a token ``at_once`` are passed on at a time, so that no one waits for all.
    Loopback alone does not protect: any page in a browser may send requests there, and a foreign
    name may resolve to this machine (DNS rebinding).
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] | None,
        admits: Callable[[HTTPConnection], ASGIApp | bool],
        refused: Callable[[int, str], ASGIApp] = refuse,
        *,
        forms: bool = False,
        at_once: int = AT_ONCE,
    ) -> None:
        """Stand before ``app``, which has the names ``hosts``; None where it checks them.

        ``admits`` checks the token, and may answer itself. With ``forms`` a request that changes
        something must name the page that it comes from.
        """
        self._app, self._hosts, self._admits = app, hosts, admits
        self._refused, self._forms, self._at_once = refused, forms, at_once
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif answer := self._instead(request := HTTPConnection(scope)):
            await answer(scope, receive, send)
        else:
            who = request.client.host if request.client else "", token_of(request)
            async with self._turns.setdefault(who, asyncio.Semaphore(self._at_once)):
                await self._app(scope, receive, send)

    def _instead(self, request: HTTPConnection) -> ASGIApp | None:
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        changes = self._forms and request.scope["method"] not in {"GET", "HEAD"}
        if self._hosts is not None:
            if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
                return self._refused(MISDIRECTED, "this server has another name")
            if (origins or changes) and origins != [f"http://{hosts[0]}"]:
                return self._refused(FORBIDDEN, "pages of another origin are not answered")
        admitted = self._admits(request)
        if admitted is False:
            return self._refused(UNAUTHORIZED, "the token is missing or unknown")
        return None if admitted is True else admitted


def token_of(request: HTTPConnection) -> str:
    """Return the token of the header, or else of the address; empty where there is not one."""
    said = request.headers.get("authorization", "")
    if said[: len(BEARER)].lower() == BEARER:
        return said[len(BEARER) :].strip()
    try:
        asked = parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=PARAMETERS)
    except ValueError:
        return ""
    given = [value for name, value in asked if name == "token"]
    return given[0] if len(given) == 1 else ""
