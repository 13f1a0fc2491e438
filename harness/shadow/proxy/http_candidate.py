"""A search server over HTTP as a searcher: the client's own request is sent to it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from harness.core.engine import Answer, Manifest, Searcher
from harness.core.records import Scalar
from harness.shadow.proxy.backend import Backend
from harness.shadow.proxy.http_body import json_of
from harness.shadow.proxy.reading import Reading, Unreadable

KIND = "http"
OK = 200
ANSWER_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class HttpSearcher:
    """Sends the requests that ``params`` hold: ``method``, ``target``, ``type`` and ``body``.

    No other header of the client's is sent, so no one's credentials go to a candidate.
    """

    client: httpx.Client
    url: httpx.URL
    reading: Reading
    backend: Backend

    @property
    def manifest(self) -> Manifest:
        return self.backend.manifest

    @property
    def generation(self) -> int | str | None:
        return self.backend.generation

    def search(self, text: str, k: int) -> Answer:
        """Refuse: a text alone is not a request."""
        del text, k
        raise Unreadable("a query without its request")

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Send a request again.

        Raises:
            Unreadable: the server does not answer with 200 and JSON as the file says, or too much.
            httpx.HTTPError: it cannot be reached, or not in time.
        """
        del text
        body = str(params["body"]).encode()
        headers = {"accept": ANSWER_TYPE, "accept-encoding": "identity"}
        if params["type"]:
            headers["content-type"] = str(params["type"])
        url = directed(self.url, str(params["target"]).encode("ascii"))
        sent = httpx.Request(str(params["method"]), url, headers=headers, content=body or None)
        got = self.client.send(sent, stream=True)
        try:
            if got.status_code != OK:
                raise Unreadable(f"HTTP {got.status_code}")
            return self.backend.read(json_of(self._read(got)), k).answer
        finally:
            got.close()

    def _read(self, got: httpx.Response) -> bytes:
        most, found = self.reading.bounds.answer_bytes, bytearray()
        for part in got.iter_raw():
            found += part
            if len(found) > most:
                raise Unreadable(f"an answer of more than {most} bytes")
        return bytes(found)


def directed(server: httpx.URL, target: bytes) -> httpx.URL:
    """Give the address of a path with its query on a server, as the client wrote them."""
    return server.copy_with(raw_path=server.raw_path.rstrip(b"/") + target)


@contextmanager
def http_candidate(server: str, reading: Reading) -> Iterator[Searcher]:
    """Hold connections to a server open; nothing is queried before the first query."""
    with httpx.Client(trust_env=False, timeout=reading.bounds.timeout_s) as client:
        yield HttpSearcher(client, httpx.URL(server), reading, Backend(reading, KIND, server))
