"""Whoever says nothing, or half a request, keeps no one out of a server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from time import monotonic
from unittest import mock

import anyio
import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.core import server as connections
from harness.core.server import Admission, server, token_of

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


def served(app: ASGIApp, most: int = 4) -> uvicorn.Server:
    made = server(app, most)
    made.config.lifespan = "off"
    return made


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
    """Return whether the server closed it; what was not read then is answered by a reset."""
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
    monkeypatch.setattr(connections, "GRACE_S", 0.0)
    monkeypatch.setattr(connections, "REQUEST_S", 2 * LONG_S)
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


def test_a_request_that_is_answered_keeps_its_connection() -> None:
    with serving(served(echo, 2)) as port, ExitStack() as until_closed:
        waiting = until_closed.enter_context(connected(port, REQUEST[:-2]))
        for _ in range(6):
            until_closed.enter_context(connected(port, b"P"))
        with connected(port) as one:
            assert answered(one).startswith(b"HTTP/1.1 200")
        assert answered(waiting, b"{}").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"POST / HTTP/1.1\r\nHo", REQUEST[:-2]])
def test_a_request_that_never_comes_whole_is_not_waited_for(port: int, said: bytes) -> None:
    with mock.patch.object(connections, "REQUEST_S", 0.05), connected(port, said) as one:
        assert one.recv(1_000) == b""


def test_the_second_request_of_a_connection_has_no_more_time_than_the_first(port: int) -> None:
    """A half request that followed a whole one was waited for without an end."""
    with mock.patch.object(connections, "REQUEST_S", 0.2), connected(port) as one:
        assert answered(one).startswith(b"HTTP/1.1 200")
        one.sendall(REQUEST[:-2])
        assert one.recv(1_000) == b""


def test_half_requests_give_their_place_to_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """They kept it until they had been waited for."""
    monkeypatch.setattr(connections, "GRACE_S", 0.0)
    monkeypatch.setattr(connections, "REQUEST_S", 2 * LONG_S)
    with serving(served(echo)) as port, ExitStack() as until_closed:
        half = [until_closed.enter_context(connected(port, REQUEST[:-2])) for _ in range(12)]
        with connected(port) as one:
            assert answered(one).startswith(b"HTTP/1.1 200")
        assert gone(half[0])


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: here\r\nX:" + b" " * 60_000 + b"\0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: here\r\nX: " + b"a " * 30_000 + b"\0\r\n\r\n",
    b"GET " + b" " * 60_000 + b"\0",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 40_000 + b"\r\n",
    b"GET /" + b"a" * 2_000_000,
    b"GET / HTTP/1.1\r\nX: " + b"a" * 2_000_000,
    b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX:"
    + b" " * 60_000
    + b"\0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    + b" " * 60_000
    + b"\0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 20_000,
]
WAIT_S = 0.5
"""Far more than an answer takes, and far less than one such head took: 60 KB of blanks 14 s."""


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_head_holds_up_no_other_client(said: bytes) -> None:
    def attack(port: int) -> None:
        with suppress(OSError), connected(port, said) as one:
            gone(one)

    with serving(served(echo, 64)) as port, connected(port) as known:
        assert answered(known).startswith(b"HTTP/1.1 200")
        attackers = [Thread(target=attack, args=(port,)) for _ in range(4)]
        for one in attackers:
            one.start()
        longest = 0.0
        for _ in range(40):
            began = monotonic()
            assert answered(known).startswith(b"HTTP/1.1 200")
            longest = max(longest, monotonic() - began)
        for one in attackers:
            one.join(LONG_S)
        assert longest < WAIT_S


@pytest.mark.parametrize("said", [HOSTILE[4], HOSTILE[5]])
def test_a_head_that_is_too_long_is_refused(port: int, said: bytes) -> None:
    with connected(port) as one, suppress(OSError):
        one.sendall(said)
        assert one.recv(1_000).startswith(b"HTTP/1.1 400")


def admitted(*headers: tuple[str, str], method: str = "GET", forms: bool = False) -> int:
    """Return the status that a request is answered with."""
    app = Admission(
        PlainTextResponse("ok"), {"here:80"}, lambda one: token_of(one) == "mine", forms=forms
    )

    async def asked() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return (await client.request(method, "http://here/", headers=headers)).status_code

    return anyio.run(asked)


def test_who_is_not_admitted_is_refused() -> None:
    host, token = ("host", "here:80"), ("authorization", "Bearer mine")
    own = ("origin", "http://here:80")
    assert admitted(host, token) == admitted(host, token, own) == 200
    assert admitted(host) == admitted(host, ("authorization", "Bearer other")) == 401
    assert admitted(("host", "elsewhere:80"), token) == 421
    assert admitted(host, token, ("origin", "http://elsewhere")) == 403
    assert admitted(host, token, method="POST", forms=True) == 403
    assert admitted(host, token, own, method="POST", forms=True) == 200
    assert admitted(host, token, method="POST") == 200
