"""Requests to the nodes of a cluster: in turn, bounded, and on to the next node where one fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from time import monotonic, sleep
from typing import Any, NamedTuple

import httpx

from engines.stacks.http import failures
from engines.stacks.http.headers import Headers
from engines.stacks.typesense.settings import Settings
from harness.core.formats import json_of
from harness.core.printable import one_line

MAX_BYTES = 64 << 20
"""Of an answer."""
FIRST_WAIT_S = 0.1
"""Before the nodes are tried once more; it doubles."""
REST_S = 30.0
"""How long a node that failed is only the last resort."""
OK = range(200, 300)


class NodeFailed(Exception):
    """A node did not answer as it should; another one may."""


class Missing(NodeFailed):
    """The node does not have the collection."""


class Refused(Exception):
    """Nodes do not take the request; the query has failed."""


class Lost(Exception):
    """No node answered; the query has no answer."""


class Request(NamedTuple):
    """What is sent to a node."""

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    body: object = None
    """Becomes JSON; None sends none."""
    content: bytes | None = None
    """As it stands."""


class Nodes:
    """The nodes of a cluster; threads may share it."""

    def __init__(
        self, client: httpx.Client, addresses: Sequence[str], settings: Settings, headers: Headers
    ) -> None:
        self._client, self._settings, self._headers = client, settings, headers
        self.addresses = tuple(addresses)
        self.lost = ""
        """Why a query had no answer because of the nodes; empty while all had one."""
        self._turn = count()
        self._rests: dict[str, float] = {}

    def send(self, node: str, request: Request, limit_s: float) -> bytes:
        """Send a request to one node and give its answer.

        Raises:
            NodeFailed: it gave none, or not in time; Refused: it does not take the request.
        """
        return b"".join(self.stream(node, request, limit_s))

    def json(self, node: str, request: Request, limit_s: float) -> Any:  # noqa: ANN401  any JSON
        """Send a request to one node and give the JSON of its answer.

        Raises:
            NodeFailed: it gave none, or not in time, or no JSON.
            Refused: it does not take the request.
        """
        said = self.send(node, request, limit_s)
        try:
            return json_of(said.decode("utf-8"))
        except ValueError as exc:
            raise NodeFailed(f"{node}: the answer is not JSON ({exc})") from exc

    def stream(self, node: str, request: Request, limit_s: float) -> Iterator[bytes]:
        """Yield an answer in parts.

        Raises:
            NodeFailed: it has none, or not in time; Refused: it does not take the request.
        """
        until, size, said = monotonic() + limit_s, 0, b""
        late = f"{node}: no whole answer within {limit_s:.3g} s"
        try:
            with self._client.stream(
                request.method,
                f"{node}{request.path}",
                params=request.query,
                json=request.body,
                content=request.content,
                timeout=limit_s,
            ) as response:
                for part in response.iter_bytes():
                    if monotonic() > until:
                        raise NodeFailed(late)
                    if response.status_code in OK:
                        yield part
                        continue
                    size, said = size + len(part), said + part
                    if size > MAX_BYTES:
                        break
        except httpx.TimeoutException as exc:
            raise NodeFailed(late) from exc
        except httpx.HTTPError as exc:
            raise NodeFailed(self._headers.hide(_of_transport(exc, node))) from exc
        if response.status_code not in OK:
            self.refuse(
                node, response.status_code, said[: 4 * failures.QUOTED].decode("utf-8", "replace")
            )

    def refuse(self, node: str, status: int, said: str) -> None:
        """Say what a status other than 2xx means.

        Raises:
            NodeFailed: another node may answer; Refused: none will.
        """
        quoted = self._headers.hide(one_line(said, failures.QUOTED))
        why = f"HTTP {status} from {node}: {quoted}"
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            key = self._settings.key_env or "of the cluster that was started"
            raise NodeFailed(f"{why} The node refuses the API key: check the variable {key}")
        if status == HTTPStatus.NOT_FOUND:
            raise Missing(f"{why} The node does not have the collection. Run: harness index")
        if status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS:
            raise Refused(why)
        raise NodeFailed(why)

    def search(self, search: Mapping[str, Any], documents: int) -> tuple[Any, int]:
        """Run one search on a node that holds so many documents; give the attempts that failed too.

        Raises:
            TimeoutError: the time limit passed; Refused: the nodes do not take the search.
            Lost: no node answered.
        """
        settings, order = self._settings, self._order()
        until, failed = monotonic() + settings.timeout_s, 0
        while True:
            node = order[failed % len(order)]
            share = min(settings.timeout_s / len(order), until - monotonic())
            try:
                return self._found(node, search, documents, share), failed
            except NodeFailed as exc:
                self._rests[node] = monotonic() + REST_S
                why = exc
            failed += 1
            if failed % len(order) == 0:
                wait_s = FIRST_WAIT_S * 2 ** (failed // len(order) - 1)
                sleep(max(0.0, min(wait_s, until - monotonic())))
            if monotonic() >= until:
                limit = f"timeout_s = {settings.timeout_s:g}"
                raise TimeoutError(f"{why} (attempts: {failed}, {limit})") from why
            if failed > settings.retries:
                self.lost = self.lost or str(why)
                raise Lost(f"{why} (attempts: {failed})") from why

    def _order(self) -> list[str]:
        """Give the nodes in turn, those that failed lately last."""
        turn, now = next(self._turn) % len(self.addresses), monotonic()
        order = [*self.addresses[turn:], *self.addresses[:turn]]
        return sorted(order, key=lambda node: self._rests.get(node, 0.0) > now)

    def _found(self, node: str, search: Mapping[str, Any], documents: int, limit_s: float) -> Any:  # noqa: ANN401
        answer = self.json(
            node, Request("POST", "/multi_search", body={"searches": [search]}), limit_s
        )
        try:
            (found,) = answer["results"]
            if "error" in found:
                self.refuse(node, int(found["code"]), str(found["error"]))
            holds, cut = found["out_of"], found["search_cutoff"]
        except (KeyError, TypeError, ValueError) as exc:
            raise NodeFailed(f"{node}: not an answer of Typesense ({exc!r})") from exc
        if holds != documents:
            raise NodeFailed(f"{node}: has {holds} documents of {documents}: the replica lags")
        if cut:
            raise Refused(f"{node}: a partial answer (search_cutoff). Nothing of it counts")
        return found


def _of_transport(exc: Exception, node: str) -> str:
    """Name the outcome of a request that has no status."""
    said = one_line(str(exc), failures.QUOTED) or type(exc).__name__
    if failures.is_tls(exc):
        return f"{node}: the certificate is not trusted ({said}). Install its authority's"
    if isinstance(exc, httpx.ConnectError):
        return f"{node}: cannot connect ({said}). Start the node, or correct nodes"
    return f"{node}: the connection ended before the answer did ({said})"


@contextmanager
def connected(addresses: Sequence[str], headers: Headers, settings: Settings) -> Iterator[Nodes]:
    """Open a pool of connections to the nodes; nothing is sent yet."""
    verify = any(address.startswith("https:") for address in addresses)
    with httpx.Client(
        headers=headers.values, trust_env=False, verify=verify, follow_redirects=False
    ) as client:
        yield Nodes(client, addresses, settings, headers)
