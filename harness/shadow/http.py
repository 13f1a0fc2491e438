"""A search server over HTTP: its requests and answers, sent, recorded, and read by its own file."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from harness.core import formats
from harness.core.engine import Answer, Hit, Manifest
from harness.core.errors import BadFile, BadPolicy, HarnessError
from harness.core.files import scratch
from harness.core.printable import many
from harness.core.reading import MAX_FILE_BYTES, Malformed, naming, opened, raw_lines, whole
from harness.core.records import Query, Scalar
from harness.shadow.pair import SECRET
from harness.shadow.server import (
    AnswerTable,
    Backend,
    ReadLimits,
    RequestTable,
    TrafficReading,
    Unreadable,
    known,
    unit,
)
from harness_engines import registry
from harness_engines.stacks.http.arm import HttpEngine, HttpMapping
from harness_engines.stacks.http.settings import PLACE, HttpSettings, NoAnswer, filled

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


class HttpRequester(Backend):
    """Sends the requests that ``params`` hold: ``method``, ``target``, ``type`` and ``body``.

    ``headers`` are of every request, and may hold secrets. With ``translates`` a request is made
    anew of its text and k, for a server with another API.
    """

    def __init__(
        self,
        client: httpx.Client,
        server: str,
        reading: TrafficReading,
        headers: Mapping[str, str],
        *,
        translates: bool = False,
    ) -> None:
        super().__init__(reading, KIND, server)
        self._client, self._url, self._translates = client, httpx.URL(server), translates
        self._headers = {"accept": ANSWER_TYPE, "accept-encoding": "gzip, deflate", SENT_BY_US: "1"}
        self._headers |= headers

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Send a request; params whose name begins with ``secret:`` are headers of it."""
        secret = {
            name.removeprefix(SECRET): str(value)
            for name, value in params.items()
            if name.startswith(SECRET)
        }
        sent = self.reading.translated(text, k) if self._translates else params
        return self.ask(k, sent, secret)[0]

    def ask(
        self, k: int, params: Mapping[str, Scalar], secret: Mapping[str, str]
    ) -> tuple[Answer, str]:
        """Send a request with secret headers; return the answer with its index's generation."""
        headers = {**self._headers, **secret}
        if params["type"]:
            headers["content-type"] = str(params["type"])
        target = str(params["target"]).encode("ascii")
        url = self._url.copy_with(raw_path=self._url.raw_path.rstrip(b"/") + target)
        body = str(params["body"]).encode() or None
        # made by hand, as the client would add its own headers, and cookies of other answers
        sent = httpx.Request(str(params["method"]), url, headers=headers, content=body)
        with closing(self._client.send(sent, stream=True)) as got:
            if got.status_code in REDIRECTS:
                raise NothingToCompare(f"HTTP {got.status_code}")
            if got.status_code != OK:
                raise Unreadable(f"HTTP {got.status_code}")
            most, found = self.reading.bounds.answer_bytes, bytearray()
            for part in got.iter_raw():
                found += part
                if len(found) > most:
                    raise Unreadable(f"an answer of more than {most} bytes")
            encoding = got.headers.get("content-encoding", "")
            return self.read(read_json(unpacked(bytes(found), encoding, most)), k)


@contextmanager
def http_searcher(
    server: str, reading: TrafficReading, headers: Mapping[str, str], *, translates: bool = False
) -> Iterator[HttpRequester]:
    """Hold connections to a server open; it is not asked before the first query."""
    with httpx.Client(trust_env=False, timeout=reading.bounds.timeout_s) as client:
        yield HttpRequester(client, server, reading, headers, translates=translates)


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


LOGGED = re.compile(rb'"([A-Z]{1,16}) ([!-!#-~]{1,16384}) HTTP/[0-9.]{1,3}"')
"""The request in a line of an access log, as nginx and Apache write it by default."""


BETWEEN = "\n🐵🙈🙉\n".encode()
"""What stands behind each message of a recording of GoReplay."""
REQUEST = b"1 "
"""Begins the first line of a message of GoReplay that is a request."""


class RecordedRequest(NamedTuple):
    """A request of a recording."""

    method: str
    target: str
    media_type: str = ""
    body: bytes = b""
    encoding: str = ""


def recorded(path: Path, reading: TrafficReading) -> Iterator[Query]:
    """Yield the queries of a recording, in its order; other requests are passed over."""
    requests = compared = 0
    with naming(path):
        for one in _requests(path):
            requests += 1
            if f"{one.method} {urlsplit(one.target).path}" not in reading.request.compared:
                continue
            compared += 1
            try:
                body = unpacked(one.body, one.encoding, reading.bounds.request_bytes)
                text, _ = reading.asked(request_parts(one.target, one.media_type, body))
            except Unreadable as exc:
                problem = f"request {requests} is not as the file of the reading says: {exc}"
                raise BadFile(path, problem, "Correct request.text or request.k there") from exc
            yield Query(str(requests), text)
    if not compared:
        asked_of = ", ".join(reading.request.compared)
        problem = f"none of its {many(requests, 'request')} is one of {asked_of}"
        hint = "Name them in request.compared, or give an access log, a HAR file, or a .gor file"
        raise BadFile(path, problem, hint)


def _requests(path: Path) -> Iterator[RecordedRequest]:
    with opened(path) as file:
        start = file.read(64).lstrip()
    if start.startswith(b"{"):
        yield from _of_har(path)
    elif start.startswith((b"1 ", b"2 ", b"3 ")) and BETWEEN in whole(path):
        yield from _of_goreplay(whole(path))
    else:
        for _, line in raw_lines(path):
            if found := LOGGED.search(line):
                method, target = (part.decode("ascii") for part in found.groups())
                yield RecordedRequest(method, target)


def _of_har(path: Path) -> Iterator[RecordedRequest]:
    try:
        for entry in formats.json_of(whole(path, most=MAX_FILE_BYTES).decode())["log"]["entries"]:
            request = entry["request"]
            url, sent = urlsplit(request["url"]), request.get("postData", {})
            target = f"{url.path or '/'}?{url.query}"
            body = str(sent.get("text", "")).encode()
            kind = str(sent.get("mimeType", ""))
            yield RecordedRequest(str(request["method"]), target, kind, body)
    except (ValueError, KeyError, TypeError, AttributeError, Malformed) as exc:
        raise BadFile(path, f"is not a HAR file ({exc!r})", "Record it anew") from exc


def _of_goreplay(raw: bytes) -> Iterator[RecordedRequest]:
    for message in raw.split(BETWEEN):
        if not message.startswith(REQUEST):
            continue
        head, _, body = message.partition(b"\n")[2].partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        kind, encoding = headers.get("content-type", ""), headers.get("content-encoding", "")
        method, _, rest = first.partition(" ")
        yield RecordedRequest(method, rest.rpartition(" ")[0], kind, body, encoding)


K_ABSENT = 10
"""Hits that a request asks for where it does not say."""
REQUEST_BYTES, ANSWER_BYTES = 1 << 16, 4 << 20


class ArmReading(TrafficReading):
    """Reads requests at the places of the arm's template, and answers as the arm does."""

    settings: HttpSettings

    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> Answer:  # noqa: ANN401  any JSON
        try:
            found = self._mapping.read(answer, k)
        except NoAnswer as exc:
            raise Unreadable(str(exc)) from None
        hits = tuple(
            Hit(hit.doc_id, 1 / at, 1 / at)
            if hit.score is None
            else Hit(hit.doc_id, unit(hit.score), hit.score)
            for at, hit in enumerate(found.hits, start=1)
        )
        return Answer(hits, manifest.fingerprint)

    def generation_of(self, answer: Any) -> int | str:  # noqa: ANN401  any JSON
        if not self.settings.generation:
            return ""
        try:
            found = self._mapping.value("generation", answer)
        except NoAnswer as exc:
            raise Unreadable(str(exc)) from None
        return known(found)

    def headers(self) -> Mapping[str, str]:
        return filled(self.settings.headers).values

    def translated(self, text: str, k: int) -> Mapping[str, Scalar]:
        request, url = self._mapping.request(text, k), urlsplit(self.settings.url)
        query = "&".join(filter(None, (url.query, urlencode(request.query or {}))))
        body = "" if request.body is None else json.dumps(request.body)
        return {
            "method": request.method,
            "target": f"{url.path or '/'}?{query}" if query else url.path or "/",
            "type": "application/json" if body else "",
            "body": body,
        }

    @property
    def _mapping(self) -> HttpMapping:
        return _compiled(self.settings.model_dump_json())


def of_arm(path: Path) -> ArmReading:
    """Derive a reading from the file of an engine over HTTP."""
    with scratch() as cache:
        engine = registry.load(str(path), cache).engine
    if not isinstance(engine, HttpEngine):
        raise BadPolicy(
            path, "is not of the stack http", "Give a file as examples/shadow/http.toml"
        )
    given = engine.settings
    places = dict(_places({"query": given.query, "body": given.tree}, ""))
    for name in ("text", "k"):
        if name not in places:
            raise BadPolicy(
                path,
                f"${{{name}}} is part of a longer value, so it cannot be read from a request",
                "Let it be a whole value, or write a file as examples/shadow/http.toml",
            )
    generation = "/" if given.generation else ""  # whether it is told; ArmReading reads it
    return ArmReading(
        request=RequestTable(
            compared=[f"{given.method} {urlsplit(given.url).path or '/'}"],
            text=places["text"],
            k=places["k"],
            k_absent=K_ABSENT,
        ),
        answer=AnswerTable(hits="", id="", score="", degraded="", generation=generation),
        bounds=ReadLimits(
            request_bytes=REQUEST_BYTES, answer_bytes=ANSWER_BYTES, timeout_s=given.timeout_s
        ),
        settings=given,
    )


def _places(tree: object, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _places(value, f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from _places(value, f"{at}/{place}")
    elif isinstance(tree, str) and (match := PLACE.fullmatch(tree)):
        yield match[1], at


@lru_cache(maxsize=4)
def _compiled(settings: str) -> HttpMapping:
    return HttpMapping(HttpSettings.model_validate_json(settings))
