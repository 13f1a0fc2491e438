"""On the wire, through http_tunnel: both sides get what they get without the proxy."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread, Timer
from time import sleep

import pytest

from harness.agreement.classes import Class
from harness.core.run import Status
from harness.shadow.live.comparison import Comparison
from harness.shadow.proxy.http_proxy import Room
from tests.make.shadow.comparisons import comparison
from tests.make.shadow.servers import Server, candidate, passing, settled
from tests.shadow.wire import (
    ANSWER,
    OK,
    RESET,
    SEARCH,
    WAIT_S,
    Wire,
    exactly,
    joined,
    request,
    resets,
    said_to,
    through,
    wired,
)

METHODS = (
    b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"SEARCH", b"QUERY", b"PROPFIND",
    b"M-SEARCH", b"TRACE",
)  # fmt: skip
CHUNKED = b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nX-Trailer: yes\r\n\r\n"
FORMS = {
    **{method.decode(): (request(method + b" /a HTTP/1.1"), OK) for method in METHODS},
    "HEAD": (request(b"HEAD /a HTTP/1.1"), b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"),
    "dots": (request(b"GET /a/../b/./c HTTP/1.1"), OK),
    "quotes": (request(b'GET /a"<>\\^`{|} HTTP/1.1'), OK),
    "empty query": (request(b"GET /a? HTTP/1.1"), OK),
    "fragment": (request(b"GET /a#b HTTP/1.1"), OK),
    "escapes": (request(b"GET /a%2Fb%20%C3%BC?q=%zz+&&=;x HTTP/1.1"), OK),
    "slashes": (request(b"GET //a//b HTTP/1.1"), OK),
    "star": (request(b"OPTIONS * HTTP/1.1"), OK),
    "absolute": (request(b"GET http://search.test/a HTTP/1.1"), OK),
    "bytes in a path": (request(b"GET /\xc3\xbc HTTP/1.1"), OK),
    "old": (b"GET /a HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nuntil the end"),
    "headers": (
        request(
            b"GET /a HTTP/1.1",
            b"X-A: 1",
            b"x-a:2",
            b"X-Empty:",
            b"TE: trailers",
            b"Connection: keep-alive, X-A",
            b"Cookie: a=b; c",
            b"X-Latin: \xfc",
        ),
        b"\r\n".join([
            b"HTTP/1.1 200 Fine  indeed",
            b"X-B: 1",
            b"x-b: 2",
            b"Set-Cookie: a",
            b"Set-Cookie: b",
            b"Content-Length: 0",
            b"",
            b"",
        ]),
    ),
    "chunked request": (
        request(b"POST /a HTTP/1.1", b"Transfer-Encoding: chunked", body=CHUNKED),
        OK,
    ),
    "chunked answer": (
        request(b"GET /a HTTP/1.1"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Trailer\r\n\r\n" + CHUNKED,
    ),
    "gzip": (
        request(b"GET /a HTTP/1.1", b"Accept-Encoding: gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\xff",
    ),
    "interim": (
        request(b"GET /a HTTP/1.1"),
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + OK,
    ),
    "no content": (request(b"GET /a HTTP/1.1"), b"HTTP/1.1 204 No Content\r\n\r\n"),
    "not modified": (
        request(b"GET /a HTTP/1.1"),
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    ),
    "until the end": (request(b"GET /a HTTP/1.1"), b"HTTP/1.1 200 OK\r\n\r\nuntil the end"),
    "upgrade": (
        request(b"GET /a HTTP/1.1", b"Connection: Upgrade", b"Upgrade: echo"),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n\x00\x01\xff any bytes",
    ),
    "a host of somebody else": (
        b"GET /a HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n",
    ),
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "two lengths": (
        request(b"POST /a HTTP/1.1", b"Content-Length: 1", b"Content-Length: 2", body=b"ab"),
        OK,
    ),
    "a large head": (request(b"GET /a HTTP/1.1", b"X-Large: " + b"x" * 100_000), OK),
}


@pytest.mark.parametrize("form", FORMS)
def test_both_sides_get_the_very_bytes(tmp_path: Path, form: str) -> None:
    sent, answer = FORMS[form]
    step = 11 if len(sent) < 1000 else 5000
    with ExitStack() as open_:
        made = open_.enter_context(comparison(tmp_path, candidate(Server())))
        plain, beside = (Wire([answer], [len(sent)]) for _ in range(2))
        direct = said_to(open_.enter_context(wired(plain)), sent, step)
        url = open_.enter_context(passing(open_.enter_context(wired(beside)), made))
        through = said_to(url, sent, step)
    assert plain.heard == [sent]
    assert beside.heard == plain.heard
    assert through == direct == answer


def test_requests_of_one_connection_keep_their_order(tmp_path: Path) -> None:
    """Pipelined, each compared with its own answer."""
    two = SEARCH + SEARCH.replace(b"apple", b"bread")
    wire = Wire([ANSWER, ANSWER.replace(b'"ab"', b'"xb"')], [len(two), 0])
    with through(tmp_path, wire) as (url, made):
        got = said_to(url, two)
        found = settled(made, attempts=2)
    assert got == b"".join(wire.says)
    assert wire.heard == [two]
    assert [one.text for one in found.divergences] == ["apple", "bread"]
    assert [one.control.hits[0].doc_id for one in found.divergences] == ["ab", "xb"]


def test_a_client_that_expects_a_word_before_its_body_gets_it(tmp_path: Path) -> None:
    head = request(b"POST /a HTTP/1.1", b"Content-Length: 3", b"Expect: 100-continue")
    go = b"HTTP/1.1 100 Continue\r\n\r\n"
    wire = Wire([go, OK], [len(head), 3])
    with through(tmp_path, wire) as (url, _), joined(url) as opened:
        opened.sendall(head)
        assert exactly(opened, len(go)) == go
        opened.sendall(b"abc")
        assert exactly(opened, len(OK)) == OK
    assert wire.heard == [head + b"abc"]


def test_our_own_name_becomes_that_of_the_control(tmp_path: Path) -> None:
    wire = Wire([OK], [1])
    with (
        comparison(tmp_path, candidate(Server())) as made,
        wired(wire) as address,
        passing(f"{address}/below/", made) as url,
    ):
        name = url.removeprefix("http://").encode()
        said_to(url, b"GET /a HTTP/1.1\r\nhost:  " + name + b" \r\nX: 1\r\n\r\n", step=500)
    theirs = address.removeprefix("http://").encode()
    assert wire.heard == [b"GET /below/a HTTP/1.1\r\nhost:  " + theirs + b" \r\nX: 1\r\n\r\n"]


def failed(made: Comparison) -> str:
    """Give the error of the one attempt, which is one of the control's."""
    (one,) = settled(made).divergences
    assert one.outcome is Class.ERROR
    assert (one.control.status, one.candidate.status) == (Status.FAILED, Status.ANSWERED)
    return one.control.error


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("kept", [0, 20, len(ANSWER) - 1])
def test_an_answer_that_is_cut_is_a_failure_of_the_control(
    tmp_path: Path, kept: int, *, resets: bool
) -> None:
    wire = Wire([ANSWER[:kept]], [len(SEARCH)], resets=resets)
    with through(tmp_path, wire) as (url, made):
        assert ANSWER.startswith(said_to(url, SEARCH).removesuffix(RESET))
        error = failed(made)
    assert ("ended before the answer" in error) or resets


def test_a_control_that_is_not_there_is_a_failure_and_the_client_is_told(tmp_path: Path) -> None:
    with (
        comparison(tmp_path, candidate(Server())) as made,
        passing("http://127.0.0.1:9", made) as url,
    ):
        got = said_to(url, SEARCH)
        assert "Connect" in failed(made)
    assert got.startswith(b"HTTP/1.1 502 ")
    assert got.endswith(b"\r\n\r\nthe server cannot be reached\r\n")


def test_what_is_on_its_way_arrives_when_the_proxy_is_stopped(tmp_path: Path) -> None:
    """A stop loses no answer and no observation."""
    got: list[bytes] = []
    asked, go = Event(), Event()

    class Slow(Wire):
        def serve(self, opened: socket.socket) -> None:
            with opened:
                opened.recv(65536)
                asked.set()
                go.wait(WAIT_S)
                opened.sendall(ANSWER)

    with (
        comparison(tmp_path, candidate(Server())) as made,
        wired(Slow([], [])) as address,
    ):
        with passing(address, made) as url:
            client = Thread(target=lambda: got.append(said_to(url, SEARCH)))
            client.start()
            assert asked.wait(WAIT_S)
            Timer(0.2, go.set).start()
        client.join(WAIT_S)
        assert settled(made).tally.compared == 1
    assert got == [ANSWER]


def test_clients_that_say_nothing_or_half_make_room_for_others(tmp_path: Path) -> None:
    wire = Wire([ANSWER], [len(SEARCH)])
    room = Room(connections=8, head_s=30.0)
    with through(tmp_path, wire, room) as (url, _), ExitStack() as open_:
        for _ in range(40):
            open_.enter_context(joined(url))
        assert said_to(url, SEARCH) == ANSWER


def test_a_head_that_never_ends_is_hung_up_on(tmp_path: Path) -> None:
    room = Room(connections=8, head_s=0.2)
    with through(tmp_path, Wire([], []), room) as (url, _):
        assert said_to(url, SEARCH[:-2]) in {b"", RESET}
        assert said_to(url, b"") in {b"", RESET}


def test_a_client_that_left_says_nothing_of_the_control(tmp_path: Path) -> None:
    wire = Wire([ANSWER], [10_000])
    with through(tmp_path, wire) as (url, made):
        with joined(url) as opened:
            opened.sendall(SEARCH)
            while not any(wire.heard):
                sleep(0.002)
            resets(opened)
        found = settled(made, faults=1)
    assert found.tally.attempted == 0
    assert "the client left" in found.degradations[0].cause
    assert wire.heard == [SEARCH + RESET]
