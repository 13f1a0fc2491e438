"""The receiver of mirrored traffic: queries and answers that a server saw."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from threading import BoundedSemaphore, Lock
from time import monotonic, perf_counter_ns
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from harness.core.errors import EvidenceError
from harness.core.server import CONNECTIONS, bound, server
from harness.shadow import http
from harness.shadow.comparison import (
    UNWRITABLE,
    ComparisonCounts,
    LiveComparison,
    Sampler,
    ShadowLog,
)
from harness.shadow.log import Between
from harness.shadow.pair import SECRET, ServedQuery, told
from harness.shadow.settings import MILLION, Sampling, TrafficReading

MOST_WAITING = 1_000
"""Requests that wait; each has a bound, so this bounds their memory too."""
WORKERS = 4
"""Requests to the control at once."""
DRAIN_S = 10.0
FULL = "too many requests wait"
TOO_FAST = "above the limit of requests a second"
NOT_COMPARED, LOOPED, NOT_SAMPLED = "not a search", "sent by a comparison", "not sampled"
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


class ReceiverLimits(NamedTuple):
    """How much load a receiver may add, and what it asks twice."""

    per_second: float
    """Requests to the control a second at most; the second of a repeated one counts too."""
    repeat: float
    """Share of the requests that the control gets a second time, to see its own noise."""
    client_header: str
    """Header that names the client; the log has a salted digest of it."""
    sampling: Sampling


class Receiver:
    """Takes copies of requests on an event loop, and asks about them on threads of its own."""

    def __init__(
        self,
        reading: TrafficReading,
        control: http.HttpRequester,
        comparison: LiveComparison,
        asking: ReceiverLimits,
    ) -> None:
        self._reading, self._control, self._comparison = reading, control, comparison
        sampling = asking.sampling
        self._sampler = Sampler(rate=sampling.rate, seed=sampling.seed)
        self._repeats = Sampler(rate=round(asking.repeat * MILLION), seed=sampling.seed)
        self._client_header = asking.client_header.lower()
        self._compared = frozenset(reading.request.compared)
        self._forwarded = frozenset(map(str.lower, reading.request.forwarded))
        self._pace = BurstPace(asking.per_second)
        self._room = BoundedSemaphore(MOST_WAITING)
        self._received, self._asked = count(1), count(1)
        self.dropped: Counter[str] = Counter()
        """Requests that nothing asked about, by reason; those of a search are in the log too."""
        self._workers = ThreadPoolExecutor(WORKERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as an ASGI application: 204 for every request, before any work."""
        if scope["type"] != "http":
            return  # nothing is opened and closed with the server
        request = await _read(Request(scope, receive), self._reading.bounds.request_bytes)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        self.take(request)

    def take(self, request: http.MirroredRequest) -> None:
        """Take a request to ask about, or count why not."""
        if http.SENT_BY_US in request.headers:
            self.dropped[LOOPED] += 1
        elif request.name not in self._compared:
            self.dropped[NOT_COMPARED] += 1
        elif not self._sampler.takes(next(self._received)):
            self.dropped[NOT_SAMPLED] += 1
        elif len(request.body) > (most := self._reading.bounds.request_bytes):
            self._drop(f"a request of more than {most} bytes")
        elif self._comparison.stuck:
            self._drop(UNWRITABLE)
        elif not self._pace.takes():
            self._drop(TOO_FAST)
        elif not self._room.acquire(blocking=False):
            self._drop(FULL)
        else:
            self._workers.submit(self._answer, request)

    def close(self) -> None:
        """Ask about what waits, and end."""
        self._workers.shutdown()

    def _drop(self, why: str) -> None:
        self.dropped[why] += 1
        self._comparison.fault(EvidenceError(why))

    def _answer(self, request: http.MirroredRequest) -> None:
        self._room.release()
        try:
            self._comparison.offer(self._asked_of_control(request), self._control.now)
        except Exception as exc:  # noqa: BLE001  counted in the log with its cause
            self._comparison.fault(exc)

    def _asked_of_control(self, request: http.MirroredRequest) -> ServedQuery:
        text, k, params = request.read(self._reading)
        forwarded = self._forwarded & request.headers.keys()
        secret = {f"{SECRET}{name}": request.headers[name] for name in forwarded}
        asked = {**params, **secret}
        answer, error, generation, again = None, "", "", None
        start = perf_counter_ns()
        try:
            answer, generation = self._control.ask(k, asked)
        except http.NothingToCompare:
            raise
        except Exception as exc:  # noqa: BLE001  a control that fails is an attempt that failed
            error = told(exc)
        elapsed_ns = perf_counter_ns() - start
        if not error and self._repeats.takes(next(self._asked)) and self._pace.takes():
            with suppress(Exception):  # the first answer is what is compared
                again = self._control.ask(k, asked)[0]
        client = request.headers.get(self._client_header, "").partition(",")[0].strip()
        return ServedQuery(
            text, k, params, answer, error, elapsed_ns, generation, client, again, secret
        )


def shadow_receive(
    control: str,
    candidate: str,
    *,
    reading: TrafficReading,
    translated: http.ArmReading | None,
    address: tuple[str, int],
    asking: ReceiverLimits,
    log: ShadowLog,
    ready: Callable[[str], object],
) -> tuple[ComparisonCounts, Mapping[str, int]]:
    """Receive mirrored requests until a signal comes; ``ready`` gets the address."""
    for server_address in (control, candidate):
        http.check_address(server_address)
    whole = log.settings.sampling.model_copy(update={"rate": MILLION})
    log = ShadowLog(log.folder, log.settings.model_copy(update={"sampling": whole}))
    opens = partial(http.http_searcher, candidate, translated or reading)
    with (
        bound(*address) as (listening, url),
        http.http_searcher(control, reading) as searcher,
        log.compared(opens, between=Between(control, candidate)) as made,
    ):
        receiver = Receiver(reading, searcher, made, asking)
        ready(url)
        try:
            with suppress(KeyboardInterrupt):
                server(receiver, CONNECTIONS).run(sockets=[listening])
        finally:
            receiver.close()
            made.drain(DRAIN_S)
    made.check_written()
    return made.counts, receiver.dropped


class BurstPace:
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


async def _read(request: Request, most: int) -> http.MirroredRequest:
    body, scope = bytearray(), request.scope
    with suppress(ClientDisconnect):
        async for part in request.stream():
            body += part[: most + 1 - len(body)]
    raw = b"?".join(filter(None, (scope["raw_path"], scope["query_string"])))
    target = quote_from_bytes(raw, PRINTABLE)
    return http.MirroredRequest(request.method, target, dict(request.headers.items()), bytes(body))
