"""A proxy before a search server: the client gets the server's bytes, and a candidate the question.

What goes through is passed on as it comes, but for the headers that concern one connection (RFC
9110, section 7.6.1). When the client has the whole answer, the question is offered to a comparison.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from urllib.parse import parse_qsl

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from harness.core.errors import HarnessError
from harness.core.records import Scalar
from harness.shadow.backend import Backend
from harness.shadow.comparison import Comparison
from harness.shadow.http_body import json_of, unpacked
from harness.shadow.http_candidate import KIND, OK, directed
from harness.shadow.pair import Served
from harness.shadow.reading import Reading, Unreadable
from harness.shadow.side import told

HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
}  # fmt: skip
"""Headers of one connection."""
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
TOO_LARGE, BAD_GATEWAY = 413, 502
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class Passed:
    """An answer on its way through."""

    status: int
    encoding: str
    elapsed_ns: int
    """What the server took: to its first byte, and then of each part."""
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """Passes requests on to one server, and offers those that are questions."""

    url: httpx.URL
    backend: Backend
    reading: Reading
    comparison: Comparison
    client: httpx.AsyncClient

    async def answer(self, request: Request) -> Response:
        """Answer as the server does; 413 and 502 are the proxy's own."""
        body = await self._body(request)
        if body is None:
            most = self.reading.bounds.request_bytes
            return PlainTextResponse(f"more than {most} bytes\n", TOO_LARGE)
        sent = httpx.Request(
            request.method,
            directed(self.url, _target(request)),
            headers=[*end_to_end(request.headers.raw, {b"host", b"content-length"})],
            content=body or None,
        )
        start = perf_counter_ns()
        try:
            got = await self.client.send(sent, stream=True)
        except httpx.HTTPError as exc:
            passed = Passed(BAD_GATEWAY, "", perf_counter_ns() - start, error=told(exc))
            offer = BackgroundTask(self._offer, request, body, passed)
            return PlainTextResponse(
                "the server cannot be reached\n", BAD_GATEWAY, background=offer
            )
        encoding = got.headers.get("content-encoding", "")
        passed = Passed(got.status_code, encoding, perf_counter_ns() - start)
        shown = StreamingResponse(
            self._through(got, passed),
            got.status_code,
            background=BackgroundTask(self._offer, request, body, passed),
        )
        shown.raw_headers = [*end_to_end(got.headers.raw)]
        return shown

    async def _body(self, request: Request) -> bytes | None:
        """Read what the client sends; None where it is too much."""
        found = bytearray()
        async for part in request.stream():
            found += part
            if len(found) > self.reading.bounds.request_bytes:
                return None
        return bytes(found)

    async def _through(self, got: httpx.Response, passed: Passed) -> AsyncIterator[bytes]:
        """Pass the answer on, and keep as much of it as may be compared."""
        parts = got.aiter_raw()
        try:
            while True:
                start = perf_counter_ns()
                part = await anext(parts, b"")
                passed.elapsed_ns += perf_counter_ns() - start
                if not part:
                    break
                if len(passed.body) <= self.reading.bounds.answer_bytes:
                    passed.body += part
                yield part
            passed.whole = True
        finally:
            await got.aclose()

    def _offer(self, request: Request, body: bytes, passed: Passed) -> None:
        """Offer a question and its answer, on a thread, when the client has the answer.

        A request that is to be compared and cannot be read is a fault, which the log says.
        """
        if f"{request.method} {request.scope['path']}" not in self.reading.request.compared:
            return
        try:
            text, k = self.reading.asked(_as_json(request, body))
            params = _again(request, body)
        except Exception as exc:  # noqa: BLE001  the client has its answer; the log is told
            self.comparison.fault(exc)
            return
        answer, generation, error = None, self.backend.now(), passed.error
        try:
            if not error:
                answer, generation = self.backend.read(self._json(passed))
        except Exception as exc:  # noqa: BLE001  an answer that cannot be read is one that failed
            error = told(exc)
        served = Served(text, k, params, answer, error, passed.elapsed_ns, generation)
        self.comparison.offer(served, self.backend.now)

    def _json(self, passed: Passed) -> object:
        most = self.reading.bounds.answer_bytes
        if passed.status != OK:
            raise Unreadable(f"HTTP {passed.status}")
        if not passed.whole or len(passed.body) > most:
            raise Unreadable(f"an answer of more than {most} bytes")
        return json_of(unpacked(bytes(passed.body), passed.encoding, most))


def end_to_end(headers: Headers, without: Container[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """Leave out the headers of one connection, and others that are named in lower case."""
    given = [(name.lower(), name, value) for name, value in headers]
    named = {
        part.strip().lower()
        for key, _, value in given
        if key == b"connection"
        for part in value.split(b",")
    }
    return [
        (name, value)
        for key, name, value in given
        if key not in HOP and key not in named and key not in without
    ]


def application(
    server: str, reading: Reading, comparison: Comparison, client: httpx.AsyncClient
) -> Starlette:
    """Make the proxy an application; the client is closed when it ends."""
    url = checked(server)
    backend = Backend(reading, KIND, str(url))
    proxy = HttpProxy(url, backend, reading, comparison, client)

    @asynccontextmanager
    async def until_closed(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    routes = [Route("/{path:path}", proxy.answer, methods=METHODS)]
    return Starlette(routes=routes, lifespan=until_closed)


def checked(server: str) -> httpx.URL:
    """Take the address of a server.

    Raises:
        HarnessError: it is none, or has a query or a user in it.
    """
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as exc:
        raise HarnessError(f"{server}: {exc}; give an address as http://127.0.0.1:9200") from exc
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.userinfo:
        raise HarnessError(f"{server} is no address of a server, as http://127.0.0.1:9200")
    return url


def connections(reading: Reading) -> httpx.AsyncClient:
    """Make what the server is reached with; it heeds no environment and follows no redirect."""
    return httpx.AsyncClient(trust_env=False, timeout=reading.bounds.timeout_s)


def _target(request: Request) -> bytes:
    """Path and query as the client wrote them."""
    scope = request.scope
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def _as_json(request: Request, body: bytes) -> dict[str, object]:
    query = request.scope["query_string"].decode("ascii")
    found: dict[str, object] = {"query": dict(parse_qsl(query, keep_blank_values=True))}
    if body:
        found["body"] = json_of(body)
    return found


def _again(request: Request, body: bytes) -> dict[str, Scalar]:
    """Keep what it takes to send a request again."""
    return {
        "method": request.method,
        "target": _target(request).decode("ascii"),
        "type": request.headers.get("content-type", ""),
        "body": body.decode(),
    }
