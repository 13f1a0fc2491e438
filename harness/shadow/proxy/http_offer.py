"""Exchanges that passed a proxy, read and offered to a comparison on a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, unquote

from harness.core.errors import EvidenceError
from harness.core.records import Scalar
from harness.shadow.live.comparison import Comparison
from harness.shadow.live.pair import Served
from harness.shadow.live.side import told
from harness.shadow.proxy.backend import Backend
from harness.shadow.proxy.backlog import Backlog
from harness.shadow.proxy.http_body import json_of, unpacked
from harness.shadow.proxy.http_candidate import KIND, OK
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.reading import Reading, Unreadable

FULL = "too many exchanges, or too large ones, wait to be compared"
"""Exchanges beyond the backlog are faults, and are counted."""


class Offers(Thread):
    """Takes what was served, whenever; whoever serves never waits for it."""

    def __init__(self, backend: Backend, reading: Reading, comparison: Comparison) -> None:
        super().__init__(name="shadow offers", daemon=True)
        self._backend, self._reading, self._comparison = backend, reading, comparison
        self._inbox: Backlog[Exchange] = Backlog()

    def put(self, exchange: Exchange) -> None:
        """Take an exchange that is over, well or not."""
        if not is_compared(exchange, self._reading):
            return
        if not self._inbox.put(exchange, exchange.kept):
            self._comparison.fault(EvidenceError(FULL))

    def untaken(self, exchange: Exchange, why: str) -> None:
        """Count an exchange that cannot be compared; it says nothing of the control."""
        if is_compared(exchange, self._reading):
            self._comparison.fault(EvidenceError(why))

    def close(self) -> None:
        """Offer what waits, and end."""
        self._inbox.end()
        self.join()

    def run(self) -> None:
        while (exchange := self._inbox.get()) is not None:
            self._offer(exchange)

    def _offer(self, exchange: Exchange) -> None:
        """Offer a request and its answer; a request that cannot be read is a fault."""
        try:
            text, k = self._reading.asked(self._request(exchange))
            params = _again(exchange)
        except Exception as exc:  # noqa: BLE001  the client has its answer; the log is told
            self._comparison.fault(exc)
            return
        answer, generation, error = None, self._backend.now(), exchange.error
        try:
            if not error:
                answer, generation = self._backend.read(self._json(exchange), k)
        except Exception as exc:  # noqa: BLE001  an answer that cannot be read is one that failed
            error = told(exc)
        served = Served(text, k, params, answer, error, exchange.waited_ns, generation)
        self._comparison.offer(served, self._backend.now)

    def _request(self, exchange: Exchange) -> Mapping[str, Any]:
        if len(exchange.body) > (most := self._reading.bounds.request_bytes):
            raise Unreadable(f"a request of more than {most} bytes")
        return as_json(exchange)

    def _json(self, exchange: Exchange) -> object:
        most = self._reading.bounds.answer_bytes
        if exchange.status != OK:
            raise Unreadable(f"HTTP {exchange.status}")
        if len(exchange.answer) > most:
            raise Unreadable(f"an answer of more than {most} bytes")
        return json_of(unpacked(bytes(exchange.answer), exchange.encoding, most))


def offers_of(server: str, reading: Reading, comparison: Comparison) -> Offers:
    """Offer to a comparison what ``server`` answers."""
    return Offers(Backend(reading, KIND, server), reading, comparison)


def is_compared(exchange: Exchange, reading: Reading) -> bool:
    """Tell whether the reading names such a request."""
    return named(exchange) in reading.request.compared


def named(exchange: Exchange) -> str:
    """Give method and path as a file names requests."""
    path, _ = _split(exchange.target)
    return f"{exchange.method} {unquote(path)}"


def _split(target: bytes) -> tuple[str, str]:
    path, _, query = target.decode("latin-1").partition("?")
    return path, query


def as_json(exchange: Exchange) -> Mapping[str, Any]:
    """Give the parameters of a request's address and its body, where pointers lead.

    Raises:
        Unreadable: the body is not JSON.
    """
    _, query = _split(exchange.target)
    found: dict[str, Any] = {"query": dict(parse_qsl(query, keep_blank_values=True))}
    if exchange.body:
        found["body"] = json_of(bytes(exchange.body))
    return found


def _again(exchange: Exchange) -> dict[str, Scalar]:
    """Keep what it takes to send a request again."""
    return {
        "method": exchange.method,
        "target": exchange.target.decode("ascii"),
        "type": exchange.header(b"content-type"),
        "body": exchange.body.decode(),
    }
