"""Upgrades and CONNECT through http_tunnel: no byte waits for what reads beside it (http_tap)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.make.shadow.servers import settled
from tests.shadow.wire import (
    ANSWER,
    OK,
    SEARCH,
    WAIT_S,
    Wire,
    exactly,
    joined,
    request,
    rest_of,
    said_to,
    through,
)

UPGRADE = request(b"GET /ws HTTP/1.1", b"Connection: Upgrade", b"Upgrade: websocket")
CONNECT = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
FRAME = b"\x81\x85abcdhello"
"""A frame of WebSocket; nothing in it ends a head."""
TEXT = b"GET of no head"
"""Bytes that could begin a request."""


def echoes(head: bytes, answer: bytes) -> Callable[[socket.socket], None]:
    """Give a server that says ``answer`` to a head, and then each byte again until the end."""

    def serve(opened: socket.socket) -> None:
        with opened:
            opened.settimeout(WAIT_S)
            exactly(opened, len(head))
            opened.sendall(answer)
            while part := opened.recv(65536):
                opened.sendall(part)

    return serve


@pytest.mark.parametrize("frame", [FRAME, TEXT])
@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (UPGRADE, SWITCHED),
        (request(b"GET /search?q=apple HTTP/1.1"), SWITCHED),
        (CONNECT, b"HTTP/1.1 200 OK\r\n\r\n"),
        (CONNECT, b"HTTP/1.1 200 fine\r\nodd header\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("early", [False, True])
def test_after_a_switch_both_directions_flow(
    tmp_path: Path, frame: bytes, head: bytes, answer: bytes, *, early: bool
) -> None:
    """``early``: the client does not wait for the answer."""
    with through(tmp_path, echoes(head, answer)) as (url, _), joined(url) as opened:
        opened.sendall(head + frame if early else head)
        assert exactly(opened, len(answer)) == answer
        if not early:
            opened.sendall(frame)
        assert exactly(opened, len(frame)) == frame
        opened.sendall(frame)
        assert exactly(opened, len(frame)) == frame
        opened.shutdown(socket.SHUT_WR)
        assert rest_of(opened) == b""


def test_bytes_that_were_held_are_released_by_the_switch(tmp_path: Path) -> None:
    """A control may switch unasked; half a head is no head then."""

    def serve(opened: socket.socket) -> None:
        with opened:
            opened.settimeout(WAIT_S)
            exactly(opened, len(SEARCH))
            opened.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            opened.sendall(SWITCHED)
            opened.sendall(exactly(opened, len(TEXT)))

    with through(tmp_path, serve) as (url, _), joined(url) as opened:
        opened.sendall(SEARCH + TEXT)
        got = rest_of(opened)
    assert got.endswith(SWITCHED + TEXT)


def test_an_upgrade_that_is_refused_leaves_the_connection_as_it_was(tmp_path: Path) -> None:
    head = request(b"GET /search?q=bread HTTP/1.1", b"Upgrade: h2c", b"Connection: Upgrade")
    wire = Wire([ANSWER, ANSWER], [len(head), len(SEARCH)])
    with through(tmp_path, wire) as (url, made), joined(url) as opened:
        opened.sendall(head)
        assert exactly(opened, len(ANSWER)) == ANSWER
        opened.sendall(SEARCH)
        assert rest_of(opened) == ANSWER
        assert settled(made, attempts=2).tally.attempted == 2
    assert wire.heard == [head + SEARCH]


def test_what_is_no_http_is_passed_on_at_once(tmp_path: Path) -> None:
    for sent in (b"\x16\x03\x01", b"SSH-2.0-a\r\n", b"GET /a\r\n"):
        wire = Wire([b"\x15\x00"], [len(sent)])
        with through(tmp_path, wire) as (url, _):
            assert said_to(url, sent, step=100) == b"\x15\x00"
        assert wire.heard == [sent]


def test_an_answer_that_cannot_be_read_is_passed_on_and_counted(tmp_path: Path) -> None:
    odd = b"HTTP/1.1 200 OK\r\nodd\x00header\r\nContent-Length: 2\r\n\r\nok"
    wire = Wire([odd, OK], [len(SEARCH), len(SEARCH)])
    with through(tmp_path, wire) as (url, made), joined(url) as opened:
        opened.sendall(SEARCH)
        assert exactly(opened, len(odd)) == odd
        opened.sendall(SEARCH)
        assert rest_of(opened) == OK
        found = settled(made, faults=2)
    assert found.tally.attempted == 0
    assert all("cannot be read" in one.cause for one in found.degradations)
