"""``mcp_tools.connections``: who says nothing keeps nobody out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from unittest import mock

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from engines.stacks.agent_mail.mcp_tools import connections
from engines.stacks.agent_mail.mcp_tools.connections import BoundedProtocol

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


@pytest.fixture
def port() -> Iterator[int]:
    """Serve on a free port, and stop afterwards."""
    config = uvicorn.Config(echo, http=BoundedProtocol, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
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


def answered(one: socket.socket, rest: bytes = REQUEST) -> bytes:
    one.sendall(rest)
    said = b""
    while not said.endswith(b"ok") and (more := one.recv(1_000)):
        said += more
    return said


def test_silent_connections_give_their_place_to_one_that_asks(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(connections, "GRACE_S", 0.0)
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
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    with ExitStack() as until_closed:
        waiting = until_closed.enter_context(connected(port, REQUEST[:-2]))
        for _ in range(6):
            until_closed.enter_context(connected(port, b"P"))
        with connected(port) as one:
            assert answered(one).startswith(b"HTTP/1.1 200")
        assert answered(waiting, b"{}").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"POST / HTTP/1.1\r\nHo", REQUEST[:-2]])
def test_a_request_that_never_comes_whole_is_not_waited_for(port: int, said: bytes) -> None:
    with mock.patch.object(connections, "HEAD_S", 0.05), connected(port, said) as one:
        assert one.recv(1_000) == b""
