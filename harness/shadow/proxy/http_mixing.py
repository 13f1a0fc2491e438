"""One list of the answers of two servers over HTTP, in the shape of the control's answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple

import h11

from harness.shadow.clicks.log import Click, ClickLog
from harness.shadow.clicks.mixing import ListMixer
from harness.shadow.live.side import told
from harness.shadow.proxy.http_ask import Candidate
from harness.shadow.proxy.http_body import json_of, unpacked
from harness.shadow.proxy.http_candidate import OK
from harness.shadow.proxy.http_control import Control
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_head import HEAD_BYTES
from harness.shadow.proxy.http_offer import as_json, is_compared, named
from harness.shadow.proxy.interleaved import Interleaved
from harness.shadow.proxy.reading import Reading, RequestedQuery, Unreadable

LIST = "X-Interleaved-List"
"""The header with the id of a mixed list."""
NOT_OURS = {
    b"content-length", b"transfer-encoding", b"content-encoding", b"trailer", b"etag",
    b"last-modified", b"content-md5", b"digest", b"content-digest", b"repr-digest",
    b"accept-ranges", b"cache-control", b"expires", b"age",
}  # fmt: skip
"""Headers of the control that speak of its own body, or let others keep it."""
MS = 1_000


class Sent(NamedTuple):
    """What a client gets."""

    raw: bytes
    shown: bool
    """Whether the log of clicks has its list, be it mixed or the control's own."""


@dataclass(slots=True)
class Mixing:
    """A request whose list is being mixed."""

    exchange: Exchange
    query: RequestedQuery
    user: str
    candidate: asyncio.Task[Any]
    held: bytearray = field(default_factory=bytearray)
    """What came of the control's answer, and is held back."""

    def cancel(self) -> None:
        """Let the candidate go."""
        self.candidate.cancel()
        self.candidate.add_done_callback(_drop)


class HttpMixer:
    """Sends the candidate what the control gets, and makes one list of both answers.

    ``allowed`` says whether an operator lets users see mixed lists now; ``tell`` is told once that
    lists cannot be written down, and are therefore not mixed.
    """

    def __init__(
        self,
        reading: Reading,
        how: Interleaved,
        candidate: Control,
        log: ClickLog,
        *,
        allowed: Callable[[], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._reading, self._how, self._candidate = reading, how, candidate
        self._log, self._lists = log, ListMixer(log, how.seed)
        self._allowed, self._tell = allowed, tell
        self._told = False
        self.most = reading.bounds.answer_bytes + HEAD_BYTES
        """Bytes of an answer that are held back."""

    def candidate(self) -> Candidate:
        """Give what sends the requests of one client to the candidate."""
        return Candidate(self._candidate, self._reading.bounds.answer_bytes)

    def begun(self, exchange: Exchange, candidate: Candidate) -> Mixing | None:
        """Begin with a request that the control got just now; None where it is not mixed."""
        if not is_compared(exchange, self._reading) or not self._allowed():
            return None
        try:
            request = _places(exchange)
            query = self._reading.asked(request)
            if len(exchange.body) > self._reading.bounds.request_bytes:
                return None
        except Exception:  # noqa: BLE001  it is served, and the comparison counts it
            return None
        if not self._how.mixes(request):
            return None
        asked = asyncio.create_task(candidate.ask(exchange))
        return Mixing(exchange, query, self._how.user_of(request), asked)

    async def sent(self, mixing: Mixing) -> Sent:
        """Give what the client gets for a control's answer that is whole: mixed, where it can be.

        It waits for the candidate as long as the file says, and no longer.
        """
        own = Sent(bytes(mixing.held), shown=False)
        try:
            answer = self._own_json(mixing.exchange)
            hits = self._reading.listed(answer, mixing.query.k)
            head = _head(own.raw, mixing.exchange.method)
        except Exception:  # noqa: BLE001  the client gets it as it is, and the comparison counts it
            mixing.cancel()
            return own
        failed, others = "", dict[str, Any]()
        try:
            async with asyncio.timeout(self._how.wait_ms / MS):
                others = self._reading.listed(await mixing.candidate, mixing.query.k)
        except TimeoutError:
            failed = (
                f"{self._how.arms[1]}: no answer within {self._how.wait_ms:g} ms of the control's"
            )
        except Exception as exc:  # noqa: BLE001  whatever the candidate does, the control's list is shown
            failed = f"{self._how.arms[1]}: {told(exc)}"
        try:
            shown = self._lists.show(
                self._how.arms, (tuple(hits), tuple(others)), mixing.query.k,
                query=mixing.query.text, user=mixing.user, failed=failed,
            )  # fmt: skip
        except OSError as exc:
            self._say(exc)
            return own
        if failed:
            return own._replace(shown=True)
        mixed = [hits[one] if one in hits else others[one] for one in shown.documents]
        body = json.dumps(self._reading.relisted(answer, mixed), ensure_ascii=False)
        return Sent(_with_body(head, body.encode(), shown.id), shown=True)

    def is_click(self, exchange: Exchange) -> bool:
        """Tell whether a request reports a click."""
        return named(exchange) == self._how.click.request

    def clicked(self, exchange: Exchange) -> None:
        """Write a click down.

        Raises:
            Unreadable: the request does not say what was clicked.
            OSError: it could not be written.
        """
        self._log.add(Click(*self._how.click.of(as_json(exchange))))

    def _own_json(self, exchange: Exchange) -> Any:  # noqa: ANN401  any JSON
        if exchange.error or not exchange.whole or exchange.status != OK:
            raise Unreadable("the control did not answer")
        most = self._reading.bounds.answer_bytes
        return json_of(unpacked(bytes(exchange.answer), exchange.encoding, most))

    def _say(self, exc: OSError) -> None:
        if not self._told:
            self._told = True
            self._tell(f"lists are not mixed, because they cannot be written down: {exc}")


def _head(raw: bytes, method: str) -> h11.Response:
    """Read the head of an answer, after interim ones."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
    reader.send(h11.Request(method=method, target="/", headers=[("host", "any")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(raw)
    while not isinstance(head := reader.next_event(), h11.Response):
        if not isinstance(head, h11.InformationalResponse):
            raise Unreadable("an answer without a head")
    return head


def _with_body(head: h11.Response, body: bytes, list_id: str) -> bytes:
    """Give an answer with another body, and without what its head said of the one it had."""
    kept = [
        b"%s: %s" % (name, value)
        for name, value in head.headers.raw_items()
        if name.lower() not in NOT_OURS
    ]
    own = f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n{LIST}: {list_id}".encode()
    first = b"HTTP/%s %d %s" % (head.http_version, head.status_code, head.reason)
    return b"\r\n".join([first, *kept, own, b"", b""]) + body


def _places(exchange: Exchange) -> Mapping[str, Any]:
    """Give a request as pointers see it: its address, body, headers and cookies."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers}
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        cookies.clear()
    found = {name: morsel.value for name, morsel in cookies.items()}
    return {**as_json(exchange), "header": headers, "cookie": found}


def _drop(task: asyncio.Task[Any]) -> None:
    """Take what a task that was let go ended with, so that none of it is reported."""
    if not task.cancelled():
        task.exception()
