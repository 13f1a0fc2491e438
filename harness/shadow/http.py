"""A search server over HTTP: its requests and answers, sent, recorded, and read by its own file."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import httpx

from harness.core import formats
from harness.core.engine import Answer, Hit, Manifest
from harness.core.errors import BadFile, BadPolicy, HarnessError
from harness.core.files import scratch
from harness.core.printable import many
from harness.core.reading import MAX_FILE_BYTES, naming, opened, raw_lines, whole
from harness.core.records import Query, Scalar
from harness.core.store import StrictModel
from harness.shadow.pair import SECRET
from harness.shadow.settings import Backend, ReadLimits, TrafficReading, Unreadable, known, unit
from harness_engines import registry
from harness_engines.stacks.http.arm import HttpEngine, HttpMapping
from harness_engines.stacks.http.settings import HttpSettings, NoAnswer, filled

KIND = "http"
REQUEST_BYTES, ANSWER_BYTES = 1 << 16, 4 << 20
OK, REDIRECTS = 200, range(300, 400)
ANSWER_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
SENT_BY_US = "x-harness-shadow"
"""Header of every request that a comparison sends; a mirror leaves such requests out."""


class NothingToCompare(Exception):
    """The server answered, but not with hits: a redirect, or ``not modified``."""


class ArmReading(StrictModel):
    """Writes requests as the template of an engine over HTTP does, and reads answers as it does."""

    settings: HttpSettings

    @property
    def bounds(self) -> ReadLimits:
        return ReadLimits(
            request_bytes=REQUEST_BYTES,
            answer_bytes=ANSWER_BYTES,
            timeout_s=self.settings.timeout_s,
        )

    @property
    def tells_generation(self) -> bool:
        return bool(self.settings.generation)

    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> tuple[Answer, int | str]:  # noqa: ANN401  any JSON
        try:
            found, told = self._mapping.read(answer, k)
        except NoAnswer as exc:
            raise Unreadable(str(exc)) from None
        hits = tuple(
            Hit(hit.doc_id, 1 / at, 1 / at)
            if hit.score is None
            else Hit(hit.doc_id, unit(hit.score), hit.score)
            for at, hit in enumerate(found, start=1)
        )
        generation = known(told) if self.tells_generation else ""
        return Answer(hits, manifest.fingerprint), generation

    def headers(self) -> Mapping[str, str]:
        """Return headers that every request to the server carries; no log has them."""
        return filled(self.settings.headers).values

    def translated(self, text: str, k: int) -> Mapping[str, Scalar]:
        """Return the params of the arm's own request for a query."""
        request, url = self._mapping.request(text, k), urlsplit(self.settings.url)
        query = "&".join(filter(None, (url.query, urlencode(request.query or {}))))
        body = "" if request.body is None else json.dumps(request.body)
        return {
            "method": request.method,
            "target": f"{url.path or '/'}?{query}" if query else url.path or "/",
            "type": ANSWER_TYPE if body else "",
            "body": body,
        }

    @cached_property
    def _mapping(self) -> HttpMapping:
        return HttpMapping(self.settings)


def of_arm(path: Path) -> ArmReading:
    """Read the file of an engine over HTTP."""
    with scratch() as cache:
        engine = registry.load(str(path), cache).engine
    if not isinstance(engine, HttpEngine):
        hint = "Give a file as examples/http_engine/servers/elasticsearch.toml"
        raise BadPolicy(path, "is not of the stack http", hint)
    found = ArmReading(settings=engine.settings)
    found.headers()  # raises where a variable of the environment is missing
    return found


class HttpRequester(Backend):
    """Sends the requests that ``params`` hold: ``method``, ``target``, ``type`` and ``body``.

    Params whose name begins with ``secret:`` are headers, as those of an ``ArmReading``. By such a
    reading a request is made anew of its text and k, for a server with another API.
    """

    def __init__(
        self,
        client: httpx.Client,
        server: str,
        reading: TrafficReading | ArmReading,
    ) -> None:
        super().__init__(reading, KIND, server)
        self._client, self._url, self._reading = client, httpx.URL(server), reading
        self._headers = {"accept": ANSWER_TYPE, "accept-encoding": "gzip, deflate", SENT_BY_US: "1"}
        if isinstance(reading, ArmReading):
            self._headers |= reading.headers()

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Send a request."""
        if isinstance(self._reading, ArmReading):
            params = {**params, **self._reading.translated(text, k)}
        return self.ask(k, params)[0]

    def ask(self, k: int, params: Mapping[str, Scalar]) -> tuple[Answer, str]:
        """Send a request; return the answer with the generation of the index that gave it."""
        secret = {name: str(value) for name, value in params.items() if name.startswith(SECRET)}
        headers = self._headers | {name.removeprefix(SECRET): of for name, of in secret.items()}
        if params["type"]:
            headers["content-type"] = str(params["type"])
        target = str(params["target"]).encode("ascii")
        url = self._url.copy_with(raw_path=self._url.raw_path.rstrip(b"/") + target)
        body = str(params["body"]).encode() or None
        # made by hand, as the client would add its own headers, and cookies of other answers
        sent = httpx.Request(str(params["method"]), url, headers=headers, content=body)
        most, found = self._reading.bounds.answer_bytes, bytearray()
        with closing(self._client.send(sent, stream=True)) as got:
            if got.status_code in REDIRECTS:
                raise NothingToCompare(f"HTTP {got.status_code}")
            if got.status_code != OK:
                raise Unreadable(f"HTTP {got.status_code}")
            for part in got.iter_raw():
                found += part
                if len(found) > most:
                    raise Unreadable(f"an answer of more than {most} bytes")
        encoding = got.headers.get("content-encoding", "")
        return self.read(read_json(unpacked(bytes(found), encoding, most)), k)


@contextmanager
def http_searcher(server: str, reading: TrafficReading | ArmReading) -> Iterator[HttpRequester]:
    """Open connections to a server; it is not asked before the first query."""
    with httpx.Client(trust_env=False, timeout=reading.bounds.timeout_s) as client:
        yield HttpRequester(client, server, reading)


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


class MirroredRequest(NamedTuple):
    """A copy of a request, as it came or was recorded."""

    method: str
    target: str
    """Path and query, in ASCII."""
    headers: Mapping[str, str] = MappingProxyType({})
    """By names in small letters."""
    body: bytes = b""

    @property
    def name(self) -> str:
        """Method and path, as a file names the requests that are compared."""
        return f"{self.method} {unquote(self.target.partition('?')[0])}"

    def read(self, reading: TrafficReading) -> tuple[str, int, Mapping[str, Scalar]]:
        """Read the query's text, its number of hits, and the params that send it again."""
        media_type = self.headers.get("content-type", "")
        encoding = self.headers.get("content-encoding", "")
        body = unpacked(self.body, encoding, reading.bounds.request_bytes)
        parameters = partial(parse_qsl, keep_blank_values=True)
        parts: dict[str, Any] = {"query": dict(parameters(self.target.partition("?")[2]))}
        if body and media_type.partition(";")[0].strip().lower() == FORM_TYPE:
            parts["body"] = dict(parameters(body.decode("latin-1")))
        elif body:
            parts["body"] = read_json(body)
        text, k = reading.asked(parts)
        same = {"method": self.method, "target": self.target, "type": media_type}
        return text, k, {**same, "body": body.decode()}


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Undo a content encoding."""
    name, whole = encoding.strip().lower(), True
    if name in {"gzip", "x-gzip", "deflate"}:
        try:
            unpacker = zlib.decompressobj(47)  # window bits for gzip and deflate, whichever it is
            body = unpacker.decompress(body, most + 1)
            whole = unpacker.eof
        except zlib.error as exc:
            raise Unreadable(f"broken {name}: {exc}") from exc
    elif name not in {"", "identity"}:
        raise Unreadable(f"a body in the encoding {encoding}")
    if len(body) > most:
        raise Unreadable(f"a body of more than {most} bytes")
    if not whole:
        raise Unreadable(f"{name} without an end")
    return body


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
SERVER = re.compile(r"\Ahttps?://[^/?]*", re.IGNORECASE)
"""Begins a target that was sent to a proxy."""


def recorded(path: Path, reading: TrafficReading) -> Iterator[Query]:
    """Yield the queries of a recording, in its order; other requests are passed over."""
    requests, named = 0, reading.request.compared
    compared = False
    with naming(path):
        for requests, sent in enumerate(_requests(path), start=1):
            one = sent._replace(target=SERVER.sub("", sent.target))
            if one.name in named:
                compared = True
                try:
                    text, *_ = one.read(reading)
                except (Unreadable, UnicodeDecodeError) as exc:
                    problem = f"request {requests} is not as the file of the reading says: {exc}"
                    hint = "Correct request.text or request.k there"
                    raise BadFile(path, problem, hint) from exc
                yield Query(str(requests), text)
    if not compared:
        problem = f"none of its {many(requests, 'request')} is one of {', '.join(named)}"
        hint = "Name them in request.compared, or give an access log, a HAR file, or a .gor file"
        raise BadFile(path, problem, hint)


def _requests(path: Path) -> Iterator[MirroredRequest]:
    with opened(path) as file:
        start = file.read(64).lstrip()
    if start.startswith(b"{"):
        yield from _of_har(path)
    elif start.startswith((b"1 ", b"2 ", b"3 ")) and BETWEEN in whole(path):
        for message in whole(path).split(BETWEEN):
            if message.startswith(b"1 "):  # a request
                head, _, body = message.partition(b"\n")[2].partition(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                pairs = (line.partition(":") for line in lines)
                headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
                method, _, rest = first.partition(" ")
                yield MirroredRequest(method, rest.rpartition(" ")[0], headers, body)
    else:
        for _, line in raw_lines(path):
            if found := LOGGED.search(line):
                method, target = (part.decode("ascii") for part in found.groups())
                yield MirroredRequest(method, target)


def _of_har(path: Path) -> Iterator[MirroredRequest]:
    try:
        for entry in formats.json_of(whole(path, most=MAX_FILE_BYTES).decode())["log"]["entries"]:
            request = entry["request"]
            url, sent = urlsplit(request["url"]), request.get("postData", {})
            headers = {"content-type": str(sent.get("mimeType", ""))}
            body = str(sent.get("text", "")).encode()
            target = f"{url.path or '/'}?{url.query}"
            yield MirroredRequest(str(request["method"]), target, headers, body)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadFile(path, f"is not a HAR file ({exc!r})", "Record it anew") from exc
