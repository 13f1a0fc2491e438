"""Whoever says nothing, or half a request, keeps no one out of a server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from unittest import mock

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from engines.stacks.agent_mail.mcp_tools import server as mcp_tools_server
from engines.stacks.agent_mail.mcp_tools.arguments import digest
from engines.stacks.agent_mail.mcp_tools.server import Guard
from harness.core import server
from harness.core.server import BoundedProtocol, bounded
from harness.core.server import server as server_server

LONG_S = 30
REQUEST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer once the body is there."""
    del scope
    while (await receive()).get("more_body"):
        pass
    await send({
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-length", b"2")],
    })
    await send({"type": "http.response.body", "body": b"ok"})


def served(app: ASGIApp, protocol: type[BoundedProtocol] = BoundedProtocol) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, http=protocol, log_config=None, lifespan="off"))


@pytest.fixture
def port() -> Iterator[int]:
    with serving(served(echo)) as found:
        yield found


@contextmanager
def serving(server: uvicorn.Server) -> Iterator[int]:
    """Serve on a free port, and stop afterwards."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        thread = Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield int(bound.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(LONG_S)


@contextmanager
def connected(port: int, said: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=LONG_S) as one:
        one.sendall(said)
        yield one


def gone(one: socket.socket) -> bool:
    """Tell whether the server closed it; what was not read then is answered by a reset."""
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def answered(one: socket.socket, rest: bytes = REQUEST) -> bytes:
    one.sendall(rest)
    said = b""
    while not said.endswith(b"ok") and (more := one.recv(1_000)):
        said += more
    return said


def test_silent_connections_give_their_place_to_one_that_asks(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(server, "GRACE_S", 0.0)
    monkeypatch.setattr(server, "REQUEST_S", 2 * LONG_S)
    with ExitStack() as until_closed:
        known = until_closed.enter_context(connected(port))
        assert answered(known).startswith(b"HTTP/1.1 200")
        silent = [
            until_closed.enter_context(connected(port, said))
            for said in (b"", b"POST / HTTP/1.1\r\nHo", b"G", b"") * 5
        ]
        for _ in range(3):
            with connected(port) as one:
                assert answered(one).startswith(b"HTTP/1.1 200")
        assert silent[0].recv(1) == b""
        assert known.recv(1) == b""


def test_a_request_that_is_answered_keeps_its_connection(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with ExitStack() as until_closed:
        waiting = until_closed.enter_context(connected(port, REQUEST[:-2]))
        for _ in range(6):
            until_closed.enter_context(connected(port, b"P"))
        with connected(port) as one:
            assert answered(one).startswith(b"HTTP/1.1 200")
        assert answered(waiting, b"{}").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"POST / HTTP/1.1\r\nHo", REQUEST[:-2]])
def test_a_request_that_never_comes_whole_is_not_waited_for(port: int, said: bytes) -> None:
    with mock.patch.object(server, "REQUEST_S", 0.05), connected(port, said) as one:
        assert one.recv(1_000) == b""


def test_the_second_request_of_a_connection_has_no_more_time_than_the_first(port: int) -> None:
    """A half request that followed a whole one was waited for without an end."""
    with mock.patch.object(server, "REQUEST_S", 0.2), connected(port) as one:
        assert answered(one).startswith(b"HTTP/1.1 200")
        one.sendall(REQUEST[:-2])
        assert one.recv(1_000) == b""


def test_half_requests_give_their_place_to_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """They kept it until they had been waited for."""
    monkeypatch.setattr(server, "GRACE_S", 0.0)
    monkeypatch.setattr(server, "REQUEST_S", 2 * LONG_S)
    with serving(served(echo, bounded(4))) as port, ExitStack() as until_closed:
        half = [until_closed.enter_context(connected(port, REQUEST[:-2])) for _ in range(12)]
        with connected(port) as one:
            assert answered(one).startswith(b"HTTP/1.1 200")
        assert gone(half[0])


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHo", REQUEST[:-2]])
def test_pages_and_the_proxy_of_mcp_are_served_within_bounds(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """Connections that said nothing were open for ever, as many as the system has files."""
    monkeypatch.setattr(server, "REQUEST_S", 0.2)
    made = server_server(echo)
    made.config.lifespan = "off"
    with serving(made) as port, connected(port, said) as one:
        assert one.recv(1_000) == b""


def test_half_requests_with_a_token_take_no_place_of_those_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred of them kept every searcher out for ten seconds."""
    monkeypatch.setattr(mcp_tools_server, "MAX_REQUESTS", 2)
    guard = Guard(echo, "127.0.0.1", 80_80, {digest("mine"): None})
    with serving(served(guard)) as port, ExitStack() as until_closed:
        host = b"Host: 127.0.0.1:8080\r\nAuthorization: Bearer mine"
        whole = REQUEST.replace(b"Host: here", host)
        for _ in range(8):
            until_closed.enter_context(connected(port, whole[:-2]))
        with connected(port) as one:
            assert answered(one, whole).startswith(b"HTTP/1.1 200")
