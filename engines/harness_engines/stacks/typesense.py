"""Typesense as an arm: a collection on every node, and answers only of nodes that hold it whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from itertools import count
from pathlib import Path
from string import punctuation
from time import monotonic, sleep
from typing import Any, ClassVar, NamedTuple

import httpx
from pydantic import Field, field_validator

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest
from harness.core.errors import IndexNotReady
from harness.core.files import write_json
from harness.core.formats import json_file, json_of
from harness.core.printable import one_line
from harness.core.records import Document
from harness_engines import contract
from harness_engines.lexical.grammar import note_nothing, parse
from harness_engines.lexical.terms import Clause, Occur, holdable
from harness_engines.stacks.http import connection
from harness_engines.stacks.http.settings import Headers, MalformedAnswer, address, filled

RULES = "rules 2"
"""The rules say how a text becomes a query; others rank otherwise."""
ABOUT = "typesense.json"
PAGE, MAX_MUST = 250, 10
"""Hits of one answer, and required words of a query: a filter takes a hundred operators."""
UNTAKEN = "Typesense does not take parentheses, parts of words or refusals alone. Drop them"
FIRST_WAIT_S, REST_S = 0.1, 30.0
"""Seconds before failed nodes are retried, doubled each time; seconds until one is queried last."""
BATCH, TAKEN = 1000, '{"success":true}'
"""Documents of one request, and what a node says to each."""
LOAD_S, PROBE_S, TURN_S = 600.0, 5.0, 0.05
"""For one request that loads or exports, for what a node says of itself, and between two."""
LAGS = "{}: has {} documents of {}: the replica lags"
line_of = partial(json.dumps, sort_keys=True)
Search = Mapping[str, Any]
FIELDS = {"title": "string", "text": "string", "place": "int32"}
Match = tuple[str, int]
"""Id of a document, and what Typesense scores it."""


class TypesenseSettings(contract.StackSettings):
    """Which nodes, and how they match and rank."""

    nodes: list[str] = Field(min_length=1)
    key_env: str = Field(pattern=r"^[A-Za-z_]\w*$")
    title_weight: int = Field(default=2, ge=1, le=127)
    text_weight: int = Field(default=1, ge=1, le=127)
    num_typos: int = Field(default=2, ge=0, le=2)
    prefix: bool = True
    drop_tokens_threshold: int = Field(default=1, ge=0, le=10_000)
    timeout_s: float = Field(ge=0.001, le=86_400)
    replicas_s: float = Field(default=60.0, gt=0, le=86_400)
    retries: int = Field(default=5, ge=0, le=20)

    @field_validator("nodes")
    @classmethod
    def _addresses(cls, given: list[str]) -> list[str]:
        return [address(one).rstrip("/") for one in given]


@dataclass(frozen=True, slots=True)
class Typesense(contract.FileEngine["TypesenseSearcher"]):
    ENGINE: ClassVar = "typesense"
    settings: TypesenseSettings

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        with self._nodes() as nodes:
            return f"Typesense {nodes.version()}, {RULES}"

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        """Load the documents, and wait until every node holds them."""
        sent = lines(documents)
        digest = digest_of(sent)
        name = f"harness_{of_json([digest, self.settings.model_dump()])[:16]}"
        what = Holding(name, len(sent), digest)
        with self._nodes() as nodes:
            nodes.load(what, sent)
            nodes.prove(what)
        write_json(index / ABOUT, what._asdict())

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[TypesenseSearcher]:
        """Connect to nodes of which each holds each document, and ask again after the queries."""
        with contract.reading(index / ABOUT, OSError, ValueError, TypeError):
            what = Holding(**json_file(index / ABOUT))
        contract.check_count(index, made, what.documents)
        with self._nodes() as nodes:
            version = nodes.version()
            nodes.prove(what)
            with contract.unmoved(lambda: nodes.lost, lambda: nodes.prove_rest(what, version)):
                yield TypesenseSearcher(nodes, made, what)

    @contextmanager
    def _nodes(self) -> Iterator[Nodes]:
        headers = filled({"X-TYPESENSE-API-KEY": f"${{{self.settings.key_env}}}"})
        with httpx.Client(headers=headers.values, trust_env=False, follow_redirects=False) as to:
            yield Nodes(to, headers, self.settings)


@dataclass(frozen=True, slots=True, eq=False)
class TypesenseSearcher:
    nodes: Nodes
    manifest: Manifest
    what: Holding

    def search(self, text: str, k: int) -> Answer:
        tree, given = parse(text), self.nodes.settings
        wanted = [part for part in tree.parts if isinstance(part, Clause) and not part.begun]
        untaken, words = len(wanted) < len(tree.parts) or tree.refuses, query(wanted)
        if untaken or not words:
            note = UNTAKEN if untaken else note_nothing(text)
            return Answer((), self.manifest.fingerprint, note)
        asked = {
            "collection": self.what.collection,
            "q": words,
            "query_by": "title,text",
            "query_by_weights": f"{given.title_weight},{given.text_weight}",
            "typo_tokens_threshold": 1,
            "sort_by": "_text_match:desc,place:asc",
            "filter_by": required(wanted),
            "include_fields": "id",
            "highlight_fields": "none",
            "per_page": PAGE,
            **given.model_dump(include={"num_typos", "prefix", "drop_tokens_threshold"}),
        }
        found, retries = list[Match](), 0
        for page in range(1, -(-k // PAGE) + 1):
            rows, failed = self.nodes.search({**asked, "page": page}, self.what.documents)
            retries += failed
            found += rows
            if len(rows) < PAGE:
                break
        return Answer(_hits(found[:k]), self.manifest.fingerprint, retries=retries)


def lines(documents: Iterable[Document]) -> list[str]:
    """Write documents in the order of their ids, each with its place in it."""
    found = sorted((one.doc_id, holdable(one.title), holdable(one.text)) for one in documents)
    return [
        line_of({"id": doc_id, "title": title, "text": text, "place": place})
        for place, (doc_id, title, text) in enumerate(found)
    ]


def query(wanted: Iterable[Clause]) -> str:
    """Write clauses as Typesense reads them; empty where no word is looked for."""
    parts: list[str] = []
    for clause in wanted:
        words = " ".join(word for word in clause.words if any(map(str.isalnum, word)))
        refused = clause.occur is Occur.NOT
        phrase = f'"{words}"' if " " in words and (refused or clause.quoted) else words
        parts += [f"-{phrase}" if refused else phrase] if words else []
    return " ".join(parts) if any(not one.startswith("-") for one in parts) else ""


def required(wanted: Iterable[Clause]) -> str:
    """Write a filter of what every hit must have: words with a plus or AND."""
    must = [" ".join(one.words) for one in wanted if one.occur is Occur.MUST][:MAX_MUST]
    return " && ".join(f"(title:`{words}` || text:`{words}`)" for words in must)


def _hits(found: Iterable[Match]) -> tuple[Hit, ...]:
    """Score by place, which equal hits share: Typesense's scores have more digits than a float."""
    hits: list[Hit] = []
    before: int | None = None
    for at, (doc_id, match) in enumerate(found, start=1):
        score = hits[-1].score if match == before else 1 / at
        hits.append(Hit(doc_id, score, score))
        before = match
    return tuple(hits)


class NodeFault(Exception):
    """A request to a node failed, and would fail on any."""


class NodeFailed(NodeFault):
    """A node gave no answer that counts; another may."""


class NodesLost(Exception):
    """No node answered; the query has no answer."""


class Holding(NamedTuple):
    """What a collection is called, and what it holds."""

    collection: str
    documents: int
    digest: str


@dataclass(slots=True, eq=False)
class Nodes:
    """The nodes of a cluster; threads may share it."""

    _client: httpx.Client
    _headers: Headers
    settings: TypesenseSettings
    lost: str = ""
    """Why a query had no answer because of the nodes; empty while all had one."""
    _turn: Iterator[int] = field(default_factory=count)
    _rests: dict[str, float] = field(default_factory=dict)

    def send(self, node: str, what: str, limit_s: float = PROBE_S, **sent: Any) -> bytes:  # noqa: ANN401  as httpx takes it
        """Send one request, such as ``GET /debug``, to one node, and return its answer."""
        method, path = what.split()
        request = self._client.build_request(method, f"{node}{path}", timeout=limit_s, **sent)
        try:
            until = monotonic() + limit_s
            response, said = connection.exchange(self._client, request, until, 4 << 30)
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise NodeFailed(f"{node}: no whole answer within {limit_s:.3g} s") from exc
        except (httpx.HTTPError, MalformedAnswer) as exc:
            why = connection.of_transport(exc, node, key="nodes")
            raise NodeFailed(self._headers.hide(why)) from exc
        if response.status_code not in connection.OK:
            self.refuse(node, response.status_code, said.decode("utf-8", "replace"))
        return said

    def refuse(self, node: str, status: int, said: str) -> None:
        """Raise what a status other than 2xx means."""
        quoted = self._headers.hide(one_line(said, connection.QUOTED))
        key = f" The node refuses the API key: check the variable {self.settings.key_env}"
        lacks = " The node lacks the collection. Run: harness stage index"
        hint = {401: key, 403: key, 404: lacks, 429: ""}.get(status)
        another = hint is not None or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = NodeFailed if another else NodeFault
        raise kind(f"HTTP {status} from {node}: {quoted}{hint or ''}")

    def search(self, search: Search, documents: int) -> tuple[list[Match], int]:
        """Run one search on a node that holds all; return its hits and the failed attempts."""
        now, nodes, limit_s = monotonic(), self.settings.nodes, self.settings.timeout_s
        turn, until, failed = next(self._turn) % len(nodes), now + limit_s, 0
        order = sorted(nodes[turn:] + nodes[:turn], key=lambda one: self._rests.get(one, 0.0) > now)
        while True:
            node = order[failed % len(order)]
            share = min(limit_s / len(order), until - monotonic())
            try:
                return self._found(node, search, documents, share), failed
            except NodeFailed as exc:
                self._rests[node], why = monotonic() + REST_S, exc
            failed += 1
            if failed % len(order) == 0:
                wait_s = FIRST_WAIT_S * 2 ** (failed // len(order) - 1)
                sleep(max(0.0, min(wait_s, until - monotonic())))
            if monotonic() >= until:
                raise TimeoutError(f"{why} (attempts: {failed}, timeout_s = {limit_s:g})") from why
            if failed > self.settings.retries:
                self.lost = self.lost or str(why)
                raise NodesLost(f"{why} (attempts: {failed})") from why

    def _found(self, node: str, search: Search, documents: int, limit_s: float) -> list[Match]:
        said = self.send(node, "POST /multi_search", limit_s, json={"searches": [search]})
        try:
            (found,) = json_of(said.decode())["results"]
            if "error" in found:
                self.refuse(node, int(found["code"]), str(found["error"]))
            holds, cut = found["out_of"], found["search_cutoff"]
        except (KeyError, TypeError, ValueError) as exc:
            raise NodeFailed(f"{node}: not an answer of Typesense ({exc!r})") from exc
        if holds != documents:
            raise NodeFailed(LAGS.format(node, holds, documents))
        if cut:
            raise NodeFault(f"{node}: a partial answer (search_cutoff). Nothing of it counts")
        try:
            return [(str(one["document"]["id"]), int(one["text_match"])) for one in found["hits"]]
        except (KeyError, TypeError, ValueError) as exc:
            raise NodeFault(f"a hit is not one of Typesense ({exc!r})") from exc

    def load(self, what: Holding, of: Sequence[str]) -> None:
        """Make a collection, which replaces one of that name, and send the documents."""
        first, path = self.settings.nodes[0], f"/collections/{what.collection}"
        schema = {
            "name": what.collection,
            "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
            "default_sorting_field": "place",
            "token_separators": list(punctuation),
        }
        try:
            with suppress(NodeFailed):
                self.send(first, f"DELETE {path}", LOAD_S)
            self.send(first, "POST /collections", LOAD_S, json=schema)
            for at in range(0, len(of), BATCH):
                batch, how = of[at : at + BATCH], {"action": "create", "batch_size": BATCH}
                into, sent = f"POST {path}/documents/import", "\n".join(batch).encode()
                said = self.send(first, into, LOAD_S, params=how, content=sent)
                told = said.decode("utf-8", "replace").splitlines()
                if len(told) != len(batch):
                    raise NodeFailed(f"answered {len(told)} lines to {len(batch)} documents")
                for line, one in zip(batch, told, strict=True):
                    if one != TAKEN:
                        doc_id = json_of(line)["id"]
                        raise NodeFailed(f"the document {doc_id!r} is not taken: {one}")
        except NodeFault as exc:
            raise IndexNotReady(f"{first}: the documents cannot be loaded: {exc}") from exc

    def prove(self, what: Holding) -> None:
        """Wait until each node holds each document."""
        until = monotonic() + self.settings.replicas_s
        for node in self.settings.nodes:
            while problem := self._missing(node, what):
                if monotonic() >= until:
                    raise IndexNotReady(f"{problem}. Wait, or build again: harness stage index")
                sleep(TURN_S)

    def prove_rest(self, what: Holding, version: str) -> None:
        """Check that more than half of the nodes still answer, and what each of those holds."""
        gone: list[str] = []
        for node in self.settings.nodes:
            try:
                now = self._told(node, "/debug").get("version")
            except NodeFault as exc:
                gone.append(str(exc))
                continue
            moved = "" if now == version else f"{node}: ran Typesense {version}, and runs {now}"
            if problem := moved or self._missing(node, what):
                raise IndexNotReady(problem)
        nodes = len(self.settings.nodes)
        if 2 * len(gone) >= nodes:
            raise IndexNotReady(f"{len(gone)} of {nodes} nodes are gone: {gone[0]}")

    def version(self) -> str:
        """Return the version that all nodes run."""
        try:
            told = {node: self._told(node, "/debug").get("version") for node in self.settings.nodes}
        except NodeFault as exc:
            raise IndexNotReady(f"a node does not say who it is: {exc}") from exc
        found, *others = set(told.values())
        if others:
            each = ", ".join(f"{node} runs {one}" for node, one in told.items())
            raise IndexNotReady(f"the nodes differ: {each}. Run one version on all of them")
        return str(found)

    def _told(self, node: str, path: str) -> Mapping[str, Any]:
        try:
            return dict(json_of(self.send(node, f"GET {path}").decode()))
        except (TypeError, ValueError) as exc:
            raise NodeFailed(f"{node}: not an answer of Typesense ({exc!r})") from exc

    def _missing(self, node: str, what: Holding) -> str:
        """Return what a node lacks yet; it counts documents before it has them, so we do too."""
        path = f"/collections/{what.collection}"
        other = f"{node}: holds other documents than were loaded. Run: harness stage index"
        try:
            holds = self._told(node, path).get("num_documents")
            if holds == what.documents:
                given = self.send(node, f"GET {path}/documents/export", LOAD_S).decode()
                lines = [line_of(json_of(line)) for line in given.splitlines()]
                holds = len(lines)
                if holds == what.documents and digest_of(lines) != what.digest:
                    raise IndexNotReady(other)
        except NodeFault as exc:
            return str(exc)
        except ValueError as exc:
            return f"{node}: gives documents that are not JSON ({exc})"
        return "" if holds == what.documents else LAGS.format(node, holds, what.documents)


def digest_of(lines: Iterable[str]) -> str:
    """Compute the digest of documents, each a line."""
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return Typesense(TypesenseSettings.model_validate(settings))
