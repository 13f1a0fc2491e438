"""Two search servers over HTTP that tests can look into, and a receiver of mirrored requests."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from time import monotonic, sleep
from typing import NamedTuple

import httpx
from starlette.testclient import TestClient

from harness.core.engine import Searcher
from harness.shadow.comparison import LiveComparison
from harness.shadow.http import HttpRequester, http_searcher
from harness.shadow.log import LogContents
from harness.shadow.receiver import Receiver, ReceiverLimits
from harness.shadow.settings import MILLION, Sampling, TrafficReading, read_reading
from harness.shadow.worker import ProcessWorker
from tests.make import search_server
from tests.make.shadow_log import drained, here
from tests.source import ROOT

READING = read_reading(ROOT / "examples" / "shadow" / "http.toml")
OTHER = "http://candidate.test"
ALL = ReceiverLimits(
    per_second=1e6,
    repeat=0,
    client_header="x-real-ip",
    sampling=Sampling(rate=MILLION, seed=1),
)
"""A receiver that asks about every request, once."""
DOCUMENTS = {"ab": "apple bread", "b": "bread", "c": "cheese and apple"}


class Sent(NamedTuple):
    """What a server sends."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def in_parts(sent: Sent) -> httpx.Response:
    """Answer with a body that comes in two parts."""
    sized = [*sent.headers, ("Content-Length", str(len(sent.body)))]
    parts = filter(None, (sent.body[:7], sent.body[7:]))
    return httpx.Response(sent.status, headers=sized, content=parts)


def answered(found: object) -> httpx.Response:
    """Answer with JSON."""
    return in_parts(Sent(200, [("Content-Type", "application/json")], json.dumps(found).encode()))


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
        return in_parts(sent)


def says(body: object, status: int = 200) -> Server:
    """Return a server that says the same whatever it is asked."""
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


def candidate(server: Server, reading: TrafficReading = READING) -> Callable[[], ProcessWorker]:
    """Return a start of a candidate behind ``server``."""

    @contextmanager
    def opens() -> Iterator[Searcher]:
        with httpx.Client(transport=httpx.MockTransport(server)) as client:
            yield HttpRequester(client, OTHER, reading)

    return here(opens)


def settled(made: LiveComparison, attempts: int = 0, faults: int = 0) -> LogContents:
    """Wait until so much came of what was served, at least one thing, and read the log."""
    until = monotonic() + 30
    while made.counts.attempted < (attempts or not faults) or made.counts.faults < faults:
        assert monotonic() < until, made.counts
        sleep(0.002)
    return drained(made)


@contextmanager
def listening(control: Callable[[httpx.Request], httpx.Response]) -> Iterator[str]:
    """Serve on a port of this machine, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            url = f"http://{self.headers['Host']}{self.path}"
            given = [(name, value) for name, value in self.headers.items()]
            got = control(httpx.Request(self.command, url, headers=given, content=body))
            sent = b"".join(got.iter_raw())
            self.send_response_only(got.status_code)
            for name, value in got.headers.raw:
                self.send_header(name.decode(), value.decode())
            self.end_headers()
            self.wfile.write(sent)

    with search_server.listening(Handler) as address:
        yield address


@contextmanager
def mirrored(
    control: Server,
    comparison: LiveComparison,
    reading: TrafficReading = READING,
    asking: ReceiverLimits = ALL,
) -> Iterator[TestClient]:
    """Yield a client that sends its requests to a receiver, which asks ``control``."""
    with listening(control) as address, http_searcher(address, reading) as searcher:
        receiver = Receiver(reading, searcher, comparison, asking)
        yield TestClient(receiver)
        receiver.close()
