"""More clients at once than any pool of connections held: each is answered, and accounted for."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Timer

import pytest

from tests.make.shadow.comparisons import comparison
from tests.make.shadow.servers import Server, candidate, passing, settled
from tests.shadow.proxy.test_http_ends import slow
from tests.shadow.wire import ANSWER, SEARCH, WAIT_S, exactly, joined, rest_of, said_to, wired

pytestmark = pytest.mark.slow
CROWD = 150
"""Half of 400 requests at once were answered 502, for a pool behind the proxy held a hundred."""
LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
"""More than the system takes for a client that reads nothing."""


class Gathering:
    """A server that answers nobody before a whole crowd has asked, and ``go`` is set."""

    def __init__(self) -> None:
        self.lock, self.asked = Lock(), 0
        self.all_here, self.go = Event(), Event()

    def serve(self, opened: socket.socket) -> None:
        with opened:
            opened.settimeout(WAIT_S)
            exactly(opened, len(SEARCH))
            with self.lock:
                self.asked += 1
                if self.asked == CROWD:
                    self.all_here.set()
            self.go.wait(WAIT_S)
            opened.sendall(ANSWER)


@contextmanager
def crowd(
    url: str, joins: Callable[[str], socket.socket] = joined
) -> Iterator[list[socket.socket]]:
    """Let so many clients ask at once."""
    with ExitStack() as open_:
        clients = [open_.enter_context(joins(url)) for _ in range(CROWD)]
        for client in clients:
            client.sendall(SEARCH)
        yield clients


@pytest.mark.parametrize("stopped", [False, True])
def test_each_of_a_crowd_is_answered_also_when_the_proxy_is_stopped(
    tmp_path: Path, *, stopped: bool
) -> None:
    """Of 200 observations a stop lost eight."""
    server = Gathering()
    with (
        comparison(tmp_path, candidate(Server())) as made,
        wired(server.serve) as address,
        ExitStack() as open_,
    ):
        with passing(address, made) as url:
            clients = open_.enter_context(crowd(url))
            assert server.all_here.wait(WAIT_S), f"{server.asked} of {CROWD} requests came through"
            if stopped:
                Timer(0.2, server.go.set).start()
            else:
                server.go.set()
                assert [rest_of(client) for client in clients] == [ANSWER] * CROWD
        if stopped:
            assert [rest_of(client) for client in clients] == [ANSWER] * CROWD
        found = settled(made, attempts=CROWD)
    assert (found.tally.attempted, found.tally.compared) == (CROWD, CROWD)
    assert not found.degradations


def test_a_crowd_that_reads_nothing_shuts_nobody_out(tmp_path: Path) -> None:
    """A hundred slow readers shut a searcher out for 31 s."""

    def serve(opened: socket.socket) -> None:
        with opened, suppress(OSError):
            opened.settimeout(WAIT_S)
            exactly(opened, len(SEARCH))
            opened.sendall(LARGE)

    with (
        comparison(tmp_path, candidate(Server())) as made,
        wired(serve) as address,
        passing(address, made) as url,
        crowd(url, slow) as clients,
    ):
        for client in clients:
            exactly(client, 10)
        assert said_to(url, SEARCH, step=len(SEARCH)) == LARGE
