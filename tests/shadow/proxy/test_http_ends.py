"""Ends and resets through http_tunnel and http_link, stops, and clients that try http_patience."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import sleep

import pytest

from harness.shadow.proxy.http_proxy import Room, cut_off
from tests.make.shadow.comparisons import comparison
from tests.make.shadow.servers import Server, candidate, passing, settled
from tests.shadow.wire import (
    ANSWER,
    RESET,
    SEARCH,
    WAIT_S,
    Wire,
    exactly,
    joined,
    request,
    resets,
    rest_of,
    said_to,
    through,
    wired,
)

UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 40
LARGE = 6_000_000


def large(size: int = LARGE) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size


def says(answer: bytes, *, reset: bool = False, then: Event | None = None) -> Callable[..., None]:
    """Give a server that answers each connection's first request, and ends after ``then``."""

    def serve(opened: socket.socket) -> None:
        with opened, suppress(ConnectionResetError):
            opened.settimeout(WAIT_S)
            opened.recv(65536)
            opened.sendall(answer)
            if then is not None:
                then.wait(WAIT_S)
            if reset:
                resets(opened)

    return serve


def slow(url: str) -> socket.socket:
    """Join as a client that takes what it must."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.settimeout(WAIT_S)
    opened.connect((host, int(port)))
    return opened


def trickle(opened: socket.socket) -> None:
    for _ in range(1_000):
        opened.sendall(b"G")
        sleep(0.01)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("reset", [False, True])
def test_a_reset_stays_a_reset_and_an_end_an_end(
    tmp_path: Path, *, reset: bool, at_once: bool
) -> None:
    """All that came before a reset is passed on, also where both come at once."""
    go = Event()
    server = says(UNTIL_THE_END, reset=reset, then=None if at_once else go)
    with through(tmp_path, server) as (url, _), joined(url) as opened:
        opened.sendall(SEARCH)
        assert exactly(opened, len(UNTIL_THE_END)) == UNTIL_THE_END
        go.set()
        assert rest_of(opened) == (RESET if reset else b"")


def test_a_client_that_has_said_all_is_answered(tmp_path: Path) -> None:
    wire = Wire([ANSWER], [len(SEARCH)])
    with through(tmp_path, wire) as (url, made), joined(url) as opened:
        opened.sendall(SEARCH)
        opened.shutdown(socket.SHUT_WR)
        assert rest_of(opened) == ANSWER
        assert settled(made).tally.compared == 1


def test_a_control_that_has_said_all_still_hears(tmp_path: Path) -> None:
    head = request(b"POST /a HTTP/1.1", b"Content-Length: 5")
    heard: list[bytes] = []

    def serve(opened: socket.socket) -> None:
        with opened:
            opened.settimeout(WAIT_S)
            exactly(opened, len(head))
            opened.sendall(UNTIL_THE_END)
            opened.shutdown(socket.SHUT_WR)
            heard.append(rest_of(opened))

    with through(tmp_path, serve) as (url, _):
        with joined(url) as opened:
            opened.sendall(head)
            assert rest_of(opened) == UNTIL_THE_END
            opened.sendall(b"hello")
        while not heard:
            sleep(0.002)
    assert heard == [b"hello"]


def test_a_control_that_ended_an_idle_connection_is_joined_anew(tmp_path: Path) -> None:
    wire = Wire([ANSWER], [len(SEARCH)])
    with through(tmp_path, wire) as (url, made):
        for _ in range(3):
            assert said_to(url, SEARCH) == ANSWER
        assert settled(made, attempts=3).tally.compared == 3
    assert wire.heard == [SEARCH] * 3


@pytest.mark.slow
def test_slow_readers_get_whole_answers_when_the_proxy_is_stopped(tmp_path: Path) -> None:
    """What waits in the proxy's own memory is on its way too."""
    clients: list[socket.socket] = []
    got: list[int] = []

    def take() -> None:
        sleep(0.3)
        for client in clients:
            with client:
                got.append(len(rest_of(client)))

    with comparison(tmp_path, candidate(Server())) as made, wired(says(large())) as address:
        with passing(address, made) as url:
            for _ in range(4):
                clients.append(slow(url))
                clients[-1].sendall(SEARCH)
                exactly(clients[-1], 10)
            sleep(0.3)
            taking = Thread(target=take)
            taking.start()
        taking.join(WAIT_S)
    assert got == [len(large()) - 10] * 4


def test_what_a_stop_cuts_off_is_said_and_looks_cut_off(tmp_path: Path) -> None:
    said: list[str] = []
    room = Room(connections=8, stop_s=0.3)
    with comparison(tmp_path, candidate(Server())) as made, wired(says(large())) as address:
        with passing(address, made, room=room, tell=said.append) as url:
            client = slow(url)
            client.sendall(SEARCH)
            exactly(client, 10)
        with client:
            assert rest_of(client).endswith(RESET)
    assert said == [cut_off(1, 0.3)]
    assert "1 connection was cut off" in said[0]


def test_a_client_that_takes_its_answer_slowly_makes_no_room(tmp_path: Path) -> None:
    room = Room(connections=1)
    with through(tmp_path, says(large()), room) as (url, _), slow(url) as first:
        first.sendall(SEARCH)
        exactly(first, 10)
        other = Thread(target=said_to, args=(url, SEARCH))
        other.start()
        sleep(0.3)
        assert len(rest_of(first)) == len(large()) - 10
        other.join(WAIT_S)
        assert not other.is_alive()


def test_a_head_that_trickles_wins_no_time(tmp_path: Path) -> None:
    """Also behind a request that waits for its answer."""
    room = Room(connections=8, head_s=0.3)
    for before in (b"", SEARCH):
        hangs = says(b"", then=Event())
        with through(tmp_path, hangs, room) as (url, _), joined(url) as opened:
            opened.sendall(before)
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                trickle(opened)
