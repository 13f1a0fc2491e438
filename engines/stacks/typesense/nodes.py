"""The nodes of a Typesense cluster: requests, and the proof that each holds every document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from http import HTTPStatus
from itertools import count
from string import punctuation
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
from pydantic import Field, field_validator, model_validator

from engines.contract import StackSettings
from engines.stacks.http import connection
from engines.stacks.http.settings import Headers
from harness.core.digest import of_json
from harness.core.errors import IndexNotReady
from harness.core.formats import json_of
from harness.core.printable import one_line
from harness.core.records import Document, Scalar


class Settings(StackSettings):
    """Which nodes, and how they match and rank."""

    nodes: list[str] = Field(default_factory=list)
    """Addresses of a cluster that is there; empty starts one."""
    key_env: str = Field(default="", pattern=r"^([A-Za-z_]\w*)?$")
    """Variable of the environment with the API key of these nodes."""
    start: Literal[1, 3, 5] = 3
    """Nodes of a cluster that is started."""
    title_weight: int = Field(default=2, ge=0, le=127)
    text_weight: int = Field(default=1, ge=1, le=127)
    num_typos: int = Field(default=2, ge=0, le=2)
    """Letters in which a word of a document may differ from the query's."""
    prefix: bool = True
    """Whether the last word may be the beginning of a longer one."""
    drop_tokens_threshold: int = Field(default=1, ge=0, le=10_000)
    """Words are dropped from a query until it has this many hits; 0 drops none."""
    typo_tokens_threshold: int = Field(default=1, ge=0, le=10_000)
    """Typos are looked for until a query has this many hits."""
    timeout_s: float = Field(ge=0.001, le=86_400)
    """For a query with all its attempts; each node has an equal part of it."""
    replicas_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long every node may take to hold every document."""
    retries: int = Field(default=5, ge=0, le=20)
    """Attempts at one query after the first."""

    @field_validator("nodes")
    @classmethod
    def _addresses(cls, given: list[str]) -> list[str]:
        for url in given:
            try:
                parts = urlsplit(url)
                port = parts.port
            except ValueError as exc:
                raise ValueError(f"{url!r} is not an address ({exc})") from exc
            known = parts.scheme in {"http", "https"} and parts.hostname and port != 0
            if not known or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
                raise ValueError(f"{url!r} is not an address. Write http://HOST:PORT")
        if len(set(given)) != len(given):
            raise ValueError("a node stands here twice. Name each once")
        return given

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.nodes) != bool(self.key_env):
            raise ValueError("key_env is needed with nodes, and only there")
        return self

    @property
    def fields(self) -> dict[str, int]:
        """Weight of each field that is searched."""
        weights = {"title": self.title_weight, "text": self.text_weight}
        return {name: weight for name, weight in weights.items() if weight}


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
                node, response.status_code, said[: 4 * connection.QUOTED].decode("utf-8", "replace")
            )

    def refuse(self, node: str, status: int, said: str) -> None:
        """Say what a status other than 2xx means.

        Raises:
            NodeFailed: another node may answer; Refused: none will.
        """
        quoted = self._headers.hide(one_line(said, connection.QUOTED))
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
    said = one_line(str(exc), connection.QUOTED) or type(exc).__name__
    if connection.is_tls(exc):
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


BATCH = 1000
"""Documents of one request."""
LOAD_S = 600.0
"""For one request that loads or exports."""
PROBE_S = 5.0
"""For what a node says of itself."""
TURN_S = 0.05
FIELDS = [
    {"name": "title", "type": "string"},
    {"name": "text", "type": "string"},
    {"name": "about", "type": "string[]"},
    {"name": "place", "type": "int32"},
]
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


class Holding(NamedTuple):
    """What a collection is called, and what it holds."""

    collection: str
    documents: int
    digest: str


def lines(documents: Iterable[Document]) -> list[str]:
    """Write documents in the order of their ids, each with its place in it."""
    found = sorted(documents, key=lambda one: one.doc_id)
    return [
        _line({
            "id": one.doc_id,
            "title": _NO_CHARACTER.sub(" ", one.title),
            "text": _NO_CHARACTER.sub(" ", one.text),
            "about": [tag(name, value) for name, value in sorted(one.metadata.items())],
            "place": place,
        })
        for place, one in enumerate(found)
    ]


def tag(name: str, value: Scalar) -> str:
    """Give the word that stands for a member of the metadata; filters look for it."""
    return of_json([name, value])[:16]


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def digest_of(of: Iterable[str]) -> str:
    """Digest of documents, each a line."""
    return _counted(of)[0]


def _counted(of: Iterable[str]) -> tuple[str, int]:
    """Give the digest of lines, and how many they are; none is kept."""
    found, count = sha256(), 0
    for line in of:
        found.update(line.encode() + b"\n")
        count += 1
    return found.hexdigest(), count


def load(nodes: Nodes, what: Holding, of: Sequence[str]) -> None:
    """Make a collection, which replaces one of that name, and send the documents.

    Raises:
        IndexNotReady: the first node does not take them.
    """
    first, path = nodes.addresses[0], f"/collections/{what.collection}"
    schema = {
        "name": what.collection,
        "fields": FIELDS,
        "default_sorting_field": "place",
        "token_separators": list(punctuation),
    }
    try:
        with suppress(Missing):
            nodes.send(first, Request("DELETE", path), LOAD_S)
        nodes.json(first, Request("POST", "/collections", body=schema), LOAD_S)
        for at in range(0, len(of), BATCH):
            batch = of[at : at + BATCH]
            said = nodes.send(
                first,
                Request(
                    "POST",
                    f"{path}/documents/import",
                    {"action": "create", "batch_size": BATCH},
                    content="\n".join(batch).encode(),
                ),
                LOAD_S,
            ).decode("utf-8", "replace")
            _check_taken(first, batch, said.splitlines())
    except (NodeFailed, Refused) as exc:
        raise IndexNotReady(f"the documents cannot be loaded: {exc}") from exc


def _check_taken(node: str, batch: Sequence[str], said: Sequence[str]) -> None:
    if len(said) != len(batch):
        raise NodeFailed(f"{node}: answered {len(said)} lines to {len(batch)} documents")
    for line, told in zip(batch, said, strict=True):
        if told != '{"success":true}':
            raise NodeFailed(f"{node}: the document {json_of(line)['id']!r} is not taken: {told}")


def version(nodes: Nodes) -> str:
    """Give the version that all nodes run.

    Raises:
        IndexNotReady: a node does not answer, or versions differ.
    """
    try:
        told = {node: _version(nodes, node) for node in nodes.addresses}
    except NodeFailed as exc:
        raise IndexNotReady(f"a node does not say who it is: {exc}") from exc
    if len(set(told.values())) > 1:
        each = ", ".join(f"{node} runs {one}" for node, one in told.items())
        raise IndexNotReady(f"the nodes differ: {each}. Run one version on all of them")
    return next(iter(told.values()))


def prove(nodes: Nodes, what: Holding, patience_s: float) -> None:
    """Wait until each node holds each document.

    Raises:
        IndexNotReady: a node does not answer, lags for longer, or holds other documents.
    """
    until = monotonic() + patience_s
    for node in nodes.addresses:
        _prove_one(nodes, node, what, until)


def prove_rest(nodes: Nodes, what: Holding, version: str) -> None:
    """Check that more than half of the nodes still answer, and what each of those holds.

    Raises:
        IndexNotReady: too few answer, or one is of another version or holds other documents.
    """
    gone: list[str] = []
    for node in nodes.addresses:
        try:
            now = _version(nodes, node)
        except NodeFailed as exc:
            gone.append(str(exc))
            continue
        if now != version:
            raise IndexNotReady(f"{node}: ran Typesense {version}, and runs {now}")
        _prove_one(nodes, node, what, monotonic())
    if 2 * len(gone) >= len(nodes.addresses):
        raise IndexNotReady(f"{len(gone)} of {len(nodes.addresses)} nodes are gone: {gone[0]}")


def _version(nodes: Nodes, node: str) -> str:
    return str(_asked(nodes, node, "/debug").get("version"))


def _prove_one(nodes: Nodes, node: str, what: Holding, until: float) -> None:
    while problem := _missing(nodes, node, what):
        if monotonic() >= until:
            raise IndexNotReady(f"{problem}. Wait for the node, or build again: harness index")
        sleep(TURN_S)


def _missing(nodes: Nodes, node: str, what: Holding) -> str:
    """Say what a node does not have yet; empty where it holds each document.

    A node counts documents before it has written them, so those that it gives are counted too.

    Raises:
        IndexNotReady: it holds other documents.
    """
    path = f"/collections/{what.collection}"
    try:
        holds = _asked(nodes, node, path).get("num_documents")
        if holds == what.documents:
            digest, holds = _counted(_exported(nodes, node, path))
            if holds == what.documents and digest != what.digest:
                raise IndexNotReady(
                    f"{node}: holds other documents than were loaded. Build again: harness index"
                )
    except (NodeFailed, Refused) as exc:
        return str(exc)
    except ValueError as exc:
        return f"{node}: gives documents that are not JSON ({exc})"
    if holds == what.documents:
        return ""
    return f"{node}: has {holds} documents of {what.documents}: the replica lags"


def _asked(nodes: Nodes, node: str, path: str) -> dict[str, Any]:
    try:
        told = nodes.json(node, Request("GET", path), PROBE_S)
    except Refused as exc:
        raise NodeFailed(str(exc)) from exc
    if not isinstance(told, dict):
        raise NodeFailed(f"{node}: not an answer of Typesense")
    return told


def _exported(nodes: Nodes, node: str, path: str) -> Iterator[str]:
    """Yield every document of a node as it was sent."""
    rest = b""
    for part in nodes.stream(node, Request("GET", f"{path}/documents/export"), LOAD_S):
        *whole, rest = (rest + part).split(b"\n")
        yield from (_line(json_of(line.decode())) for line in whole)
    if rest:
        yield _line(json_of(rest.decode()))
