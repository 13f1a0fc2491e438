"""Requests to a candidate from the process that serves, over a connection that is kept."""

from __future__ import annotations

from typing import Any

from harness.shadow.proxy.http_body import json_of, unpacked
from harness.shadow.proxy.http_candidate import ANSWER_TYPE, OK
from harness.shadow.proxy.http_control import Control
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_link import Link
from harness.shadow.proxy.http_tap import Answers
from harness.shadow.proxy.reading import Unreadable


class Candidate:
    """Sends one client's requests to a server again, one after the other."""

    def __init__(self, server: Control, answer_bytes: int) -> None:
        self._server, self._most = server, answer_bytes
        self._link: Link | None = None

    async def ask(self, exchange: Exchange) -> Any:  # noqa: ANN401  any JSON
        """Give the JSON that the server answers.

        The request goes with its method, address, body and content type, and no other header.

        Raises:
            OSError: the server cannot be reached, or the connection broke.
            Unreadable: it does not answer with 200 and JSON, or with too much of it.
        """
        sent = self._request(exchange)
        link, self._link = self._link, None
        if link is not None and (got := await self._through(link, sent, exchange)) is not None:
            return self._read(got)
        got = await self._through(await self._server.dial(), sent, exchange)
        if got is None:
            raise Unreadable("it ended the connection without an answer")
        return self._read(got)

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()

    async def _through(self, link: Link, sent: bytes, exchange: Exchange) -> Exchange | None:
        """Give the answer over one connection; None where it ended before the first byte."""
        answers = Answers(self._most)
        asked = Exchange(exchange.method, exchange.target, (), passed_ns=1)
        answers.waiting.append(asked)
        kept = False
        try:
            link.write(sent)
            ended: list[Exchange] = []
            came = False
            while not ended:
                try:
                    data = await link.read()
                except OSError:
                    if came:
                        raise
                    return None
                if not data and not came:
                    return None
                came = True
                ended = answers.feed(data, 2) if data else answers.end(at=2)
                if len(asked.answer) > self._most:
                    raise Unreadable(f"an answer of more than {self._most} bytes")
            kept = asked.whole and not (link.over or answers.blind)
            return asked
        finally:
            if kept:
                self._link = link
            else:
                link.reset()

    def _read(self, got: Exchange) -> Any:  # noqa: ANN401  any JSON
        if got.error or got.unread:
            raise Unreadable(got.error or got.unread)
        if got.status != OK:
            raise Unreadable(f"HTTP {got.status}")
        return json_of(unpacked(bytes(got.answer), got.encoding, self._most))

    def _request(self, exchange: Exchange) -> bytes:
        lines = [
            b"%s %s HTTP/1.1" % (exchange.method.encode(), self._server.prefix + exchange.target),
            b"Host: " + self._server.name,
            b"Accept: " + ANSWER_TYPE.encode(),
            b"Accept-Encoding: identity",
        ]
        if kind := exchange.header(b"content-type"):
            lines.append(b"Content-Type: " + kind.encode("latin-1"))
        if exchange.body:
            lines.append(b"Content-Length: %d" % len(exchange.body))
        return b"\r\n".join([*lines, b"", b""]) + exchange.body
