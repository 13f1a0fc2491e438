"""A search server over HTTP as a searcher."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from harness.core import formats
from harness.core.engine import Answer, Manifest, Searcher
from harness.core.errors import HarnessError
from harness.core.records import Scalar
from harness.shadow.pair import SECRET
from harness.shadow.server import Backend, Reading, Told, Unreadable

KIND = "http"
OK, REDIRECTS = 200, range(300, 400)
ANSWER_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
SENT_BY_US = "x-harness-shadow"
"""Header of every request that a comparison sends; a mirror leaves such requests out."""
EITHER = 47
"""Window bits of zlib for gzip and for deflate, whichever it is."""


class NothingToCompare(Exception):
    """The server answered, but not with hits: a redirect, or ``not modified``."""


@dataclass(frozen=True, slots=True)
class HttpSearcher:
    """Sends the requests that ``params`` hold: ``method``, ``target``, ``type`` and ``body``.

    Of the client's other headers only those are sent that the file names.
    """

    client: httpx.Client
    url: httpx.URL
    reading: Reading
    backend: Backend
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of every request; they may hold secrets."""
    translates: bool = False
    """Whether a request is made anew of its text and k, for a server with another API."""

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
        """Send a request; params whose name begins with ``secret:`` are headers of it."""
        secret = {name: str(value) for name, value in params.items() if name.startswith(SECRET)}
        if self.translates:
            params = self.reading.translated(text, k)
        return self.ask(k, params, {n.removeprefix(SECRET): v for n, v in secret.items()}).answer

    def ask(self, k: int, params: Mapping[str, Scalar], secret: Mapping[str, str]) -> Told:
        """Send a request with secret headers; return the answer with its index's generation."""
        body = str(params["body"]).encode()
        headers = {"accept": ANSWER_TYPE, "accept-encoding": "gzip, deflate", SENT_BY_US: "1"}
        headers |= {**self.headers, **secret}
        if params["type"]:
            headers["content-type"] = str(params["type"])
        target = str(params["target"]).encode("ascii")
        url = self.url.copy_with(raw_path=self.url.raw_path.rstrip(b"/") + target)
        sent = httpx.Request(str(params["method"]), url, headers=headers, content=body or None)
        got = self.client.send(sent, stream=True)
        try:
            if got.status_code in REDIRECTS:
                raise NothingToCompare(f"HTTP {got.status_code}")
            if got.status_code != OK:
                raise Unreadable(f"HTTP {got.status_code}")
            return self.backend.read(read_json(self._read(got)), k)
        finally:
            got.close()

    def _read(self, got: httpx.Response) -> bytes:
        """Read the body, packed and unpacked within the same bound."""
        most, found = self.reading.bounds.answer_bytes, bytearray()
        for part in got.iter_raw():
            found += part
            if len(found) > most:
                raise Unreadable(f"an answer of more than {most} bytes")
        return unpacked(bytes(found), got.headers.get("content-encoding", ""), most)


@contextmanager
def http_searcher(
    server: str, reading: Reading, headers: Mapping[str, str], *, translates: bool = False
) -> Iterator[HttpSearcher]:
    """Hold connections to a server open; it is not asked before the first query."""
    timeout_s = reading.bounds.timeout_s
    with httpx.Client(trust_env=False, timeout=timeout_s) as client:
        backend = Backend(reading, KIND, server)
        yield HttpSearcher(client, httpx.URL(server), reading, backend, headers, translates)


@contextmanager
def http_candidate(
    server: str, reading: Reading, *, translates: bool = False
) -> Iterator[Searcher]:
    """Open the candidate; headers of a file go to that server alone which the file is about."""
    headers = reading.headers() if translates else {}
    with http_searcher(server, reading, headers, translates=translates) as searcher:
        yield searcher


def check_address(server: str) -> None:
    """Check that a text is the address of a server."""
    try:
        url = urlsplit(server)
        fits = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:
        fits = False
    if not fits or url.query or url.fragment or "@" in url.netloc or not server.isascii():
        shown = re.sub("//.*@|[?#].*", "…", server)
        raise HarnessError(f"{shown} is not an address of a server, as http://127.0.0.1:9200")


def request_parts(target: str, media_type: str, body: bytes) -> Mapping[str, Any]:
    """Return the parameters of an address and of a body, where the pointers of a file lead."""
    found: dict[str, Any] = {"query": _parameters(target.partition("?")[2])}
    if body and media_type.partition(";")[0].strip().lower() == FORM_TYPE:
        found["body"] = _parameters(body.decode("latin-1"))
    elif body:
        found["body"] = read_json(body)
    return found


def _parameters(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True))
    except ValueError as exc:
        raise Unreadable(f"its parameters: {exc}") from exc


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Undo a content encoding."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        found, whole = body, True
    elif name in {"gzip", "x-gzip", "deflate"}:
        try:
            unpacker = zlib.decompressobj(EITHER)
            found = unpacker.decompress(body, most + 1)
            whole = unpacker.eof
        except zlib.error as exc:
            raise Unreadable(f"broken {name}: {exc}") from exc
    else:
        raise Unreadable(f"a body in the encoding {encoding}")
    if len(found) > most:
        raise Unreadable(f"a body of more than {most} bytes")
    if not whole:
        raise Unreadable(f"{name} without an end")
    return found


def read_json(text: bytes) -> Any:  # noqa: ANN401  any JSON
    """Read JSON."""
    try:
        return formats.json_of(text.decode("utf-8"))
    except ValueError as exc:
        raise Unreadable(f"it is not JSON: {type(exc).__name__}") from exc
