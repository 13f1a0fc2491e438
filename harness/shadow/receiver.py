"""The receiver of mirrored traffic: queries and answers that a server saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from threading import Lock, Thread
from time import monotonic, perf_counter_ns
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes, unquote

from harness.core.errors import EvidenceError
from harness.core.records import Scalar
from harness.shadow.comparison import Comparison
from harness.shadow.http_searcher import (
    SENT_BY_US,
    HttpSearcher,
    NothingToCompare,
    request_parts,
    unpacked,
)
from harness.shadow.limits import Sampler
from harness.shadow.pair import Served, told
from harness.shadow.server import Backlog, Reading

FULL = "too many requests wait"
TOO_FAST = "above the limit of requests a second"
NOT_COMPARED, LOOPED, NOT_SAMPLED = "not a search", "sent by a comparison", "not sampled"
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Mirrored(NamedTuple):
    """A copy of a request, as it came."""

    method: str
    target: str
    """Path and query, in ASCII."""
    headers: Mapping[str, str]
    body: bytes

    @property
    def name(self) -> str:
        """Method and path, as a file names the requests that are compared."""
        return f"{self.method} {unquote(self.target.partition('?')[0])}"


class Asking(NamedTuple):
    """How much load a receiver may add, and what it asks twice."""

    workers: int
    """Requests to the control at once."""
    per_second: float
    """Requests to the control a second at most; the second of a repeated one counts too."""
    sampler: Sampler
    """Picks the requests that are compared."""
    repeats: Sampler
    """Picks those of them that the control gets a second time, to see its own noise."""
    client_header: str
    """Header that names the client; the log has a salted digest of it."""


class Receiver:
    """Takes copies of requests on an event loop, and asks about them on threads of its own."""

    def __init__(
        self, reading: Reading, control: HttpSearcher, comparison: Comparison, asking: Asking
    ) -> None:
        self._reading, self._control, self._comparison = reading, control, comparison
        self._asking = asking
        self._compared = frozenset(reading.request.compared)
        self._pace = Pace(asking.per_second)
        self._backlog: Backlog[Mirrored] = Backlog()
        self._counting = Lock()
        self._received = self._asked = 0
        self.dropped: Counter[str] = Counter()
        """Requests that nothing asked about, by reason; those of a search are in the log too."""
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(asking.workers)]
        for thread in self._threads:
            thread.start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as an ASGI application: 204 for every request, before any work."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            return
        request = await _read(scope, receive, self._reading.bounds.request_bytes)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        self.take(request)

    def take(self, request: Mirrored) -> None:
        """Take a request to ask about, or count why not."""
        if SENT_BY_US in request.headers:
            self.dropped[LOOPED] += 1
        elif request.name not in self._compared:
            self.dropped[NOT_COMPARED] += 1
        elif not self._sampled():
            self.dropped[NOT_SAMPLED] += 1
        elif len(request.body) > (most := self._reading.bounds.request_bytes):
            self._drop(f"a request of more than {most} bytes")
        elif not self._pace.takes():
            self._drop(TOO_FAST)
        elif not self._backlog.put(request, len(request.body) + len(request.target)):
            self._drop(FULL)

    def close(self) -> None:
        """Ask about what waits, and end."""
        for _ in self._threads:
            self._backlog.end()
        for thread in self._threads:
            thread.join()

    def _sampled(self) -> bool:
        self._received += 1
        return self._asking.sampler.takes(self._received)

    def _drop(self, why: str) -> None:
        self.dropped[why] += 1
        self._comparison.fault(EvidenceError(why))

    def _work(self) -> None:
        while (request := self._backlog.get()) is not None:
            try:
                self._ask(request)
            except Exception as exc:  # noqa: BLE001  counted in the log with its cause
                self._comparison.fault(exc)

    def _ask(self, request: Mirrored) -> None:
        """Ask the control, and offer its answer to the comparison, which asks the candidate."""
        most = self._reading.bounds.request_bytes
        body = unpacked(request.body, request.headers.get("content-encoding", ""), most)
        media_type = request.headers.get("content-type", "")
        text, k = self._reading.asked(request_parts(request.target, media_type, body))
        params: dict[str, Scalar] = {
            "method": request.method,
            "target": request.target,
            "type": media_type,
            "body": body.decode(),
        }
        answer, error, generation = None, "", ""
        start = perf_counter_ns()
        try:
            answer, generation = self._control.ask(k, params)
        except NothingToCompare:
            raise
        except Exception as exc:  # noqa: BLE001  a control that fails is an attempt that failed
            error = told(exc)
        elapsed_ns = perf_counter_ns() - start
        again = None if error or not self._repeated() else self._again(k, params)
        client = request.headers.get(self._asking.client_header, "").partition(",")[0].strip()
        served = Served(text, k, params, answer, error, elapsed_ns, generation, client, again)
        self._comparison.offer(served, self._control.backend.now)

    def _repeated(self) -> bool:
        with self._counting:
            self._asked += 1
            return self._asking.repeats.takes(self._asked) and self._pace.takes()

    def _again(self, k: int, params: Mapping[str, Scalar]) -> object:
        """Ask the control once more; None where it fails then, which says nothing of its noise."""
        try:
            return self._control.ask(k, params).answer
        except Exception:  # noqa: BLE001  the first answer is what is compared
            return None


class Pace:
    """At most so many a second, in bursts of one second's worth."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(per_second, 1.0)
        self._left, self._at = self._most, monotonic()
        self._lock = Lock()

    def takes(self) -> bool:
        """Check whether one more may be sent now, and count it."""
        with self._lock:
            now = monotonic()
            self._left = min(self._left + (now - self._at) * self._per_second, self._most)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


async def _read(scope: Scope, receive: Receive, most: int) -> Mirrored:
    """Read a request; of a body that is too long no more than one byte over the bound is kept."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")[: most + 1 - len(body)]
        if not message.get("more_body", False):
            break
    query = scope["query_string"]
    raw = scope["raw_path"] + (b"?" + query if query else b"")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Mirrored(scope["method"], quote_from_bytes(raw, PRINTABLE), headers, bytes(body))


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
