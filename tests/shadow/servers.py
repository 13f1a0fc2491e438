"""Two search servers over HTTP that tests can look into, and a proxy before the first."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import httpx
from starlette.testclient import TestClient

from harness.core.engine import Searcher
from harness.shadow.backend import Backend
from harness.shadow.comparison import Comparison
from harness.shadow.http_candidate import KIND, HttpSearcher
from harness.shadow.http_proxy import application
from harness.shadow.reading import Reading
from harness.shadow.worker import Worker
from harness.stages.shadow_files import read_reading
from tests.shadow.live import on_thread
from tests.source import ROOT

READING = read_reading(ROOT / "examples" / "shadow" / "http.toml")
URL, OTHER = "http://control.test", "http://candidate.test"
DOCUMENTS = {"ab": "apple bread", "b": "bread", "c": "cheese and apple"}


class Sent(NamedTuple):
    """What a server sends."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that comes in two parts."""

    def __init__(self, body: bytes) -> None:
        self._parts = [part for part in (body[:7], body[7:]) if part]

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


@dataclass
class Server:
    """Finds documents by a word; ``changes`` may make another answer of its own."""

    changes: Callable[[Sent], Sent] = lambda sent: sent
    asked: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        asked = request.url.params
        found = found_of(asked.get("q", ""), int(asked.get("size", "10")))
        headers = [("Content-Type", "application/json"), ("X-Own", "1")]
        sent = self.changes(Sent(200, headers, json.dumps(found).encode()))
        return httpx.Response(sent.status, headers=sent.headers, stream=Parts(sent.body))


def says(body: object, status: int = 200) -> Server:
    """Give a server that says the same whatever it is asked."""
    return Server(lambda _: Sent(status, [], json.dumps(body).encode()))


def found_of(word: str, size: int) -> dict[str, object]:
    ids = [one for one, text in DOCUMENTS.items() if word in text.split()][:size]
    hits = [{"_id": one, "_score": 9.5 - at} for at, one in enumerate(ids)]
    return {"hits": {"hits": hits}, "timed_out": False}


def moved_to(number: object) -> Callable[[Sent], Sent]:
    """Have a server tell the generation of its index."""

    def told(sent: Sent) -> Sent:
        found = {**json.loads(sent.body), "index": {"generation": number}}
        return sent._replace(body=json.dumps(found).encode())

    return told


def packed(sent: Sent) -> Sent:
    """Send the same as gzip."""
    return Sent(200, [("Content-Encoding", "gzip")], gzip.compress(sent.body))


def candidate(server: Server, reading: Reading = READING) -> Callable[[], Worker]:
    """Give a start of a candidate behind ``server``."""

    @contextmanager
    def opens() -> Iterator[Searcher]:
        with httpx.Client(transport=httpx.MockTransport(server)) as client:
            backend = Backend(reading, KIND, OTHER)
            yield HttpSearcher(client, httpx.URL(OTHER), reading, backend)

    return on_thread(opens)


@contextmanager
def proxied(
    control: Server, comparison: Comparison, reading: Reading = READING
) -> Iterator[TestClient]:
    """Give a client of the proxy before ``control``."""
    client = httpx.AsyncClient(transport=httpx.MockTransport(control))
    app = application(URL, reading, comparison, client)
    with TestClient(app, raise_server_exceptions=False) as made:
        for name in ("accept", "accept-encoding", "user-agent"):
            made.headers.pop(name, None)
        yield made
