"""Requests to a candidate (http_ask): one connection, kept while it lasts."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from harness.shadow.proxy.http_ask import Candidate
from harness.shadow.proxy.http_control import checked, control_at
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.reading import Unreadable
from tests.shadow.wire import wired

SEARCH = Exchange("GET", b"/search?q=apple", ())
CLOSES, STAYS = b"HTTP/1.0 200 OK\r\n\r\n[1]", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]"


class Counts:
    """A server that counts its connections, and ends one after so many answers."""

    def __init__(self, says: bytes, answers: int) -> None:
        self._says, self._answers = says, answers
        self.connections = 0
        self.heard = b""

    def __call__(self, opened: socket.socket) -> None:
        self.connections += 1
        with opened:
            for _ in range(self._answers):
                self.heard = opened.recv(65536)
                if not self.heard:
                    return
                opened.sendall(self._says)


def asked(url: str, times: int, answer_bytes: int = 100) -> list[Any]:
    async def run() -> list[Any]:
        candidate = Candidate(control_at(checked(url), frozenset(), 5.0), answer_bytes)
        try:
            return [await candidate.ask(SEARCH) for _ in range(times)]
        finally:
            candidate.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("says", "answers", "connections"), [(STAYS, 9, 1), (CLOSES, 1, 4), (STAYS, 2, 2)]
)
def test_a_connection_is_kept_as_long_as_the_server_keeps_it(
    says: bytes, answers: int, connections: int
) -> None:
    server = Counts(says, answers)
    with wired(server) as url:
        assert asked(url, 4) == [[1]] * 4
    assert server.connections == connections


def test_the_path_of_the_candidate_stands_before_every_path() -> None:
    server = Counts(STAYS, 1)
    with wired(server) as url:
        assert asked(f"{url}/below/", 1) == [[1]]
    assert server.heard.startswith(b"GET /below/search?q=apple HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "HTTP 404"),
        (STAYS[:-1], "ended before the answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 101, "more than 100 bytes"),
        (b"no HTTP\r\n\r\n", "cannot be read"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(says: bytes, words: str) -> None:
    with wired(Counts(says, 1)) as url, pytest.raises(Unreadable, match=words):
        asked(url, 1)
