"""Requests to the server, and who answers them."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple

import httpx

from harness.core.digest import of_json
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.formats import json_of
from harness.core.printable import one_line
from harness_engines.stacks.http import settings as arm_file
from harness_engines.stacks.http.settings import Headers, HttpSettings, MalformedAnswer, NoAnswer

QUOTED = 200
"""Characters of a server's own words that a message repeats."""


CREDENTIALS = "The server refuses the credentials: check headers"
REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: CREDENTIALS,
    HTTPStatus.FORBIDDEN: CREDENTIALS,
    HTTPStatus.NOT_FOUND: "No such path or index: check url",
    HTTPStatus.TOO_MANY_REQUESTS: "The server sheds load: set rate_per_s, or run fewer at once",
}


def of_status(status: int, url: str, location: str, said: str) -> str:
    """Describe what a status other than 2xx means."""
    name = f"HTTP {status} from {url}"
    quoted = f"{name}: {one_line(said, QUOTED)}" if said.strip() else name
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"{name}: it redirects to {one_line(location, QUOTED)}. Write that address as url"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"{quoted}. See the server's log"
    refused = "The server does not take the request: check query and body"
    return f"{quoted}. {REFUSALS.get(status, refused)}"


def of_transport(exc: Exception, url: str, *, key: str = "url") -> str:
    """Name the outcome of a request that has no status; ``key`` of the arm has the address."""
    said = one_line(str(exc), QUOTED)
    if is_tls(exc):
        remedy = "Name the authority's PEM file as ca_file"
        return f"{url}: the certificate is not trusted ({said}). {remedy}"
    if isinstance(exc, httpx.ConnectError):
        return f"{url}: cannot connect ({said}). Start it, or correct {key}"
    return f"{url}: the connection ended before the answer did ({said or type(exc).__name__})"


def is_tls(exc: Exception) -> bool:
    """Return whether TLS is what failed."""
    return "[SSL" in str(exc)


TRIED_AGAIN = frozenset({429, 502, 503, 504})
MAX_BYTES = 64 << 20
"""Of an answer."""
FIRST_WAIT_S = 0.1
"""Before the second attempt, where the server names no time; it doubles."""
OK = range(200, 300)


class Request(NamedTuple):
    """What is sent; ``body`` becomes JSON, and None sends none."""

    method: str
    url: str
    query: Mapping[str, Any] | None = None
    body: object = None
    paced: bool = True
    """Whether ``rate_per_s`` counts it; probes are few."""


class Got(NamedTuple):
    """An answer, and how many attempts failed before it."""

    answer: Any
    retries: int
    limited: int
    """Of these, how many the server answered with 429."""


class _Again(Exception):
    """An attempt failed in a way that may pass; ``wait_s`` is what the server asks for."""

    def __init__(self, why: str, wait_s: float | None = None, *, limited: bool = False) -> None:
        super().__init__(why)
        self.wait_s, self.limited = wait_s, limited


def exchange(
    client: httpx.Client, request: httpx.Request, until: float, most: int = MAX_BYTES
) -> tuple[httpx.Response, bytes]:
    """Send a request, and read its answer whole."""
    response = client.send(request, stream=True)
    try:
        parts, size = [], 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > most:
                raise MalformedAnswer(f"{response.url}: the answer has over {most >> 20} MiB")
            if monotonic() > until:
                raise TimeoutError
    finally:
        response.close()
    return response, b"".join(parts)


@dataclass(slots=True)
class HttpConnections:
    """A pool of connections to one server; threads may share it."""

    client: httpx.Client
    settings: HttpSettings
    headers: Headers
    _lock: Lock = field(default_factory=Lock)
    _next_s: float = 0.0

    def call(self, request: Request) -> Got:
        """Send a request, again where the server asks for it, and give the JSON of the answer."""
        until = monotonic() + self.settings.timeout_s
        retries = limited = 0
        while True:
            if request.paced:
                self._wait_for_turn(until)
            try:
                return Got(self._once(request, until), retries, limited)
            except _Again as exc:
                wait_s = FIRST_WAIT_S * 2**retries if exc.wait_s is None else exc.wait_s
                if retries >= self.settings.retries:
                    raise NoAnswer(f"{exc} (attempts: {retries + 1})") from exc
                if monotonic() + wait_s >= until:
                    raise NoAnswer(
                        f"{exc} (attempts: {retries + 1}; the next is due in {wait_s:g} s,"
                        f" beyond timeout_s = {self.settings.timeout_s:g})"
                    ) from exc
                retries += 1
                limited += exc.limited
                sleep(wait_s)

    def _once(self, wanted: Request, until: float) -> Any:  # noqa: ANN401  any JSON
        url = wanted.url
        request = self.client.build_request(
            wanted.method,
            url,
            params=wanted.query or None,
            json=wanted.body,
            timeout=max(until - monotonic(), 0.001),
        )
        try:
            response, said = exchange(self.client, request, until)
        except (httpx.TimeoutException, TimeoutError) as exc:
            limit = f"{self.settings.timeout_s:g} s"
            raise TimeoutError(f"{url}: no whole answer within {limit}") from exc
        except httpx.TransportError as exc:
            kind = NoAnswer if is_tls(exc) else _Again
            raise kind(self.headers.hide(of_transport(exc, url))) from exc
        status, told = response.status_code, response.headers
        if status not in OK:
            body = said[: 4 * QUOTED].decode("utf-8", "replace")
            why = self.headers.hide(of_status(status, url, told.get("location", ""), body))
            if status not in TRIED_AGAIN:
                raise NoAnswer(why)
            limited = status == HTTPStatus.TOO_MANY_REQUESTS
            raise _Again(why, seconds(told.get("retry-after", "")), limited=limited)
        try:
            return json_of(said.decode("utf-8"))
        except ValueError as exc:
            kind = told.get("content-type", "no content type")
            raise MalformedAnswer(f"{url}: the answer is not JSON ({exc}; {kind})") from exc

    def _wait_for_turn(self, until: float) -> None:
        """Keep to ``rate_per_s``, over all threads."""
        rate = self.settings.rate_per_s
        if not rate:
            return
        with self._lock:
            turn = max(self._next_s, monotonic())
            if turn >= until:
                raise TimeoutError(f"no turn within the time limit at rate_per_s = {rate:g}")
            self._next_s = turn + 1 / rate
        sleep(max(turn - monotonic(), 0.0))


def seconds(told: str) -> float | None:
    """Read Retry-After where it is in seconds."""
    return float(told) if told.strip().isdecimal() else None


@contextmanager
def connected(settings: HttpSettings) -> Iterator[HttpConnections]:
    """Open a pool of connections; nothing is sent yet."""
    headers, most = arm_file.filled(settings.headers), settings.connections
    trust: ssl.SSLContext | bool = settings.verify
    if settings.ca_file:
        try:
            trust = ssl.create_default_context(cafile=settings.ca_file)
        except (OSError, ssl.SSLError) as exc:
            raise IndexNotReady(
                f"ca_file {settings.ca_file}: cannot be read ({exc}). Name a PEM file"
            ) from exc
    elif not any(url.startswith("https:") for url in settings.urls):
        trust = False  # certificates take a while to read
    with httpx.Client(
        headers=headers.values,
        verify=trust,
        limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
        trust_env=False,
        follow_redirects=False,
    ) as client:
        yield HttpConnections(client, settings, headers)


DIGITS = 16
"""Of a digest that stands for a generation of many values."""
PATIENCE_S = 5.0
"""How long the end waits for a probe that is under way."""


class ProbedIdentity(NamedTuple):
    """What the probes told; empty and None are not told."""

    version: str
    documents: int | None
    generation: str

    def __str__(self) -> str:
        parts = [f"version {self.version}"] if self.version else []
        parts += [f"{self.documents} documents"] if self.documents is not None else []
        parts += [f"generation {self.generation}"] if self.generation else []
        return ", ".join(parts) or "self-reported: the arm's file names no probe"


def word(value: object) -> str:
    """Write what a server tells as one short text, always the same for the same value."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return of_json(value)[:DIGITS]


def asked(to: HttpConnections) -> ProbedIdentity:
    """Send the probes."""
    told: dict[str, Any] = {}
    for probe in to.settings.probe:
        body = json_of(probe.body) if probe.body else None
        request = Request(probe.method, probe.url, body=body, paced=False)
        try:
            answer = to.call(request).answer
            for key in ("version", "documents", "generation"):
                if text := getattr(probe, key):
                    told[key] = value = arm_file.compiled(text)(answer)
                    if value in (None, "", [], {}):
                        problem = f"nothing matches {key} = {text!r} of the probe. Correct it"
                        raise IndexNotReady(f"{probe.url}: {problem}")
                    if key == "documents" and type(value) is not int:
                        problem = f"documents = {text!r} is {value!r}, not a count"
                        raise IndexNotReady(f"{probe.url}: {problem}")
        except (NoAnswer, TimeoutError) as exc:
            raise IndexNotReady(f"the probe does not say who answers: {exc}") from exc
    count = told.get("documents")
    return ProbedIdentity(word(told.get("version", "")), count, word(told.get("generation", "")))


@dataclass(slots=True)
class Watch:
    """Compares who answers with who did at the beginning, from time to time."""

    began: ProbedIdentity
    moved: str = ""
    """How the server differs; empty while it does not."""

    def compare(self, to: HttpConnections) -> None:
        """Ask once more."""
        now = asked(to)
        if now != self.began and not self.moved:
            self.moved = f"the index moved while queries ran: it was {self.began}, it is {now}"

    def run(self, settings: HttpSettings, ended: Event) -> None:
        """Ask every so often, over a connection of its own, until the end."""
        with connected(settings) as to:
            while not ended.wait(settings.probe_every_s):
                with suppress(IndexNotReady):  # it fails its queries too, and the end asks again
                    self.compare(to)


@contextmanager
def watched(to: HttpConnections, began: ProbedIdentity) -> Iterator[Watch]:
    """Watch who answers while the block runs, and ask a last time after it."""
    watch, ended = Watch(began), Event()
    if not to.settings.probe:
        yield watch
        return
    thread = Thread(target=watch.run, args=(to.settings, ended), name="http-probe", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join(PATIENCE_S)
    watch.compare(to)
    if watch.moved:
        raise InvalidArm(
            f"{to.settings.url}: {watch.moved}. Nothing is scored."
            " Let indexing end, build again (harness stage index), and replay"
        )
