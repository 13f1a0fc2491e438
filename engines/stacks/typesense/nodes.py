"""The nodes of a Typesense cluster: requests, and the proof that each holds every document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from http import HTTPStatus
from itertools import count
from string import punctuation
from time import monotonic, sleep
from typing import Any, NamedTuple

import httpx

from engines.stacks.http import connection
from engines.stacks.http.settings import Headers
from harness.core.errors import IndexNotReady
from harness.core.formats import json_of
from harness.core.printable import one_line

FIRST_WAIT_S = 0.1
"""Before the nodes are tried once more; it doubles."""
REST_S = 30.0
"""How long a node that failed is only the last resort."""
BATCH = 1000
"""Documents of one request."""
LOAD_S, PROBE_S, TURN_S = 600.0, 5.0, 0.05
"""For one request that loads or exports, for what a node says of itself, and between two."""
MOST_EXPORTED = 4 << 30
FIELDS = {"title": "string", "text": "string", "place": "int32"}


class NodeFailed(Exception):
    """A node gave no answer that counts; another may."""


class Refused(Exception):
    """Nodes do not take the request; the query has failed."""


class Lost(Exception):
    """No node answered; the query has no answer."""


class Holding(NamedTuple):
    """What a collection is called, and what it holds."""

    collection: str
    documents: int
    digest: str


class Nodes:
    """The nodes of a cluster; threads may share it."""

    def __init__(
        self, client: httpx.Client, addresses: Sequence[str], headers: Headers, key_name: str
    ) -> None:
        self._client, self._headers, self._key_name = client, headers, key_name
        self.addresses = tuple(addresses)
        self.lost = ""
        """Why a query had no answer because of the nodes; empty while all had one."""
        self._turn = count()
        self._rests: dict[str, float] = {}

    def send(self, node: str, what: str, limit_s: float = PROBE_S, **sent: Any) -> bytes:  # noqa: ANN401  as httpx takes it
        """Send one request, such as ``GET /debug``, to one node, and return its answer."""
        method, path = what.split()
        request = self._client.build_request(method, f"{node}{path}", timeout=limit_s, **sent)
        try:
            response, said = connection.exchange(
                self._client, request, monotonic() + limit_s, MOST_EXPORTED
            )
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise NodeFailed(f"{node}: no whole answer within {limit_s:.3g} s") from exc
        except (httpx.HTTPError, connection.Malformed) as exc:
            why = connection.of_transport(exc, node, key="nodes")
            raise NodeFailed(self._headers.hide(why)) from exc
        if response.status_code not in connection.OK:
            self.refuse(node, response.status_code, said.decode("utf-8", "replace"))
        return said

    def json(self, node: str, what: str, limit_s: float = PROBE_S, **sent: Any) -> Any:  # noqa: ANN401  any JSON
        """Send one request to one node, and return the JSON of its answer."""
        try:
            return json_of(self.send(node, what, limit_s, **sent).decode("utf-8"))
        except ValueError as exc:
            raise NodeFailed(f"{node}: the answer is not JSON ({exc})") from exc

    def refuse(self, node: str, status: int, said: str) -> None:
        """Raise what a status other than 2xx means."""
        quoted = self._headers.hide(one_line(said, connection.QUOTED))
        why = f"HTTP {status} from {node}: {quoted}"
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise NodeFailed(f"{why} The node refuses the API key: check {self._key_name}")
        if status == HTTPStatus.NOT_FOUND:
            raise NodeFailed(f"{why} The node lacks the collection. Run: harness stage index")
        if status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS:
            raise Refused(why)
        raise NodeFailed(why)

    def search(
        self, search: Mapping[str, Any], what: Holding, timeout_s: float, most: int
    ) -> tuple[Any, int]:
        """Run one search on a node that holds all; return its answer and the failed attempts."""
        turn, now = next(self._turn) % len(self.addresses), monotonic()
        order = [*self.addresses[turn:], *self.addresses[:turn]]
        order.sort(key=lambda node: self._rests.get(node, 0.0) > now)
        until, failed = now + timeout_s, 0
        while True:
            node = order[failed % len(order)]
            try:
                share = min(timeout_s / len(order), until - monotonic())
                return self._found(node, search, what.documents, share), failed
            except NodeFailed as exc:
                self._rests[node] = monotonic() + REST_S
                why = exc
            failed += 1
            if failed % len(order) == 0:
                wait_s = FIRST_WAIT_S * 2 ** (failed // len(order) - 1)
                sleep(max(0.0, min(wait_s, until - monotonic())))
            if monotonic() >= until:
                limit = f"timeout_s = {timeout_s:g}"
                raise TimeoutError(f"{why} (attempts: {failed}, {limit})") from why
            if failed > most:
                self.lost = self.lost or str(why)
                raise Lost(f"{why} (attempts: {failed})") from why

    def _found(self, node: str, search: Mapping[str, Any], documents: int, limit_s: float) -> Any:  # noqa: ANN401
        answer = self.json(node, "POST /multi_search", limit_s, json={"searches": [search]})
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

    def load(self, what: Holding, of: Sequence[str]) -> None:
        """Make a collection, which replaces one of that name, and send the documents."""
        first, path = self.addresses[0], f"/collections/{what.collection}"
        schema = {
            "name": what.collection,
            "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
            "default_sorting_field": "place",
            "token_separators": list(punctuation),
        }
        try:
            with suppress(NodeFailed):
                self.send(first, f"DELETE {path}", LOAD_S)
            self.json(first, "POST /collections", LOAD_S, json=schema)
            for at in range(0, len(of), BATCH):
                batch, how = of[at : at + BATCH], {"action": "create", "batch_size": BATCH}
                sent = "\n".join(batch).encode()
                into = f"POST {path}/documents/import"
                _check_taken(batch, self.send(first, into, LOAD_S, params=how, content=sent))
        except (NodeFailed, Refused) as exc:
            raise IndexNotReady(f"{first}: the documents cannot be loaded: {exc}") from exc

    def prove(self, what: Holding, patience_s: float) -> None:
        """Wait until each node holds each document."""
        until = monotonic() + patience_s
        for node in self.addresses:
            while problem := self._missing(node, what):
                if monotonic() >= until:
                    raise IndexNotReady(
                        f"{problem}. Wait for it, or build again: harness stage index"
                    )
                sleep(TURN_S)

    def prove_rest(self, what: Holding, version: str) -> None:
        """Check that more than half of the nodes still answer, and what each of those holds."""
        gone: list[str] = []
        for node in self.addresses:
            try:
                now = self._version(node)
            except NodeFailed as exc:
                gone.append(str(exc))
                continue
            if now != version:
                raise IndexNotReady(f"{node}: ran Typesense {version}, and runs {now}")
            if problem := self._missing(node, what):
                raise IndexNotReady(problem)
        if 2 * len(gone) >= len(self.addresses):
            raise IndexNotReady(f"{len(gone)} of {len(self.addresses)} nodes are gone: {gone[0]}")

    def version(self) -> str:
        """Return the version that all nodes run."""
        try:
            told = {node: self._version(node) for node in self.addresses}
        except NodeFailed as exc:
            raise IndexNotReady(f"a node does not say who it is: {exc}") from exc
        if len(set(told.values())) > 1:
            each = ", ".join(f"{node} runs {one}" for node, one in told.items())
            raise IndexNotReady(f"the nodes differ: {each}. Run one version on all of them")
        return next(iter(told.values()))

    def _version(self, node: str) -> str:
        return str(self._asked(node, "/debug").get("version"))

    def _asked(self, node: str, path: str) -> Mapping[str, Any]:
        try:
            told = self.json(node, f"GET {path}")
        except Refused as exc:
            raise NodeFailed(str(exc)) from exc
        return told if isinstance(told, dict) else {}

    def _missing(self, node: str, what: Holding) -> str:
        """Return what a node does not have yet; empty where it holds each document.

        A node counts documents before it has written them, so those that it gives are counted too.
        """
        path = f"/collections/{what.collection}"
        try:
            holds = self._asked(node, path).get("num_documents")
            if holds == what.documents:
                given = self.send(node, f"GET {path}/documents/export", LOAD_S).decode()
                lines = [line_of(json_of(line)) for line in given.splitlines()]
                holds = len(lines)
                if holds == what.documents and digest_of(lines) != what.digest:
                    raise IndexNotReady(
                        f"{node}: holds other documents than were loaded. Run: harness stage index"
                    )
        except (NodeFailed, Refused) as exc:
            return str(exc)
        except ValueError as exc:
            return f"{node}: gives documents that are not JSON ({exc})"
        lags = f"{node}: has {holds} documents of {what.documents}: the replica lags"
        return "" if holds == what.documents else lags


def _check_taken(batch: Sequence[str], said: bytes) -> None:
    told = said.decode("utf-8", "replace").splitlines()
    if len(told) != len(batch):
        raise NodeFailed(f"answered {len(told)} lines to {len(batch)} documents")
    for line, one in zip(batch, told, strict=True):
        if one != '{"success":true}':
            raise NodeFailed(f"the document {json_of(line)['id']!r} is not taken: {one}")


def line_of(row: Mapping[str, Any]) -> str:
    """Write a document as it is sent."""
    return json.dumps(row, sort_keys=True)


def digest_of(lines: Iterable[str]) -> str:
    """Compute the digest of documents, each a line."""
    found = sha256()
    for line in lines:
        found.update(line.encode() + b"\n")
    return found.hexdigest()
