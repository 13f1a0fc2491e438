"""A node that speaks Typesense's HTTP, with faults in a queue: no server is needed to plant one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.make.search_server import Fault, Server, send

KEY = "correct-key"
HEADER = "X-TYPESENSE-API-KEY"
TAKEN, REFUSED = '{"success":true}', '{"code":400,"error":"no","success":false}'


@dataclass
class Cluster:
    """What the nodes share: a leader hands each change on at once."""

    collections: dict[str, list[str]] = field(default_factory=dict)
    """Lines of each."""


@dataclass
class Node:
    """One node, and what it is told to do."""

    cluster: Cluster
    url: str = ""
    version: str = "0.24.1"
    lags: int = 0
    """Documents that it does not have yet."""
    unwritten: int = 0
    """Exports that lack a document, which is counted already."""
    faults: list[Fault] = field(default_factory=list)
    """Each spoils one search, in order."""
    forever: Fault | None = None
    """Spoils every search."""
    refuses: str = ""
    """Id of a document that it does not take; of ``all`` it says nothing."""
    gone: bool = False
    searches: list[dict[str, Any]] = field(default_factory=list)

    def lines(self, name: str) -> list[str] | None:
        """Give the documents of a collection that this node has."""
        whole = self.cluster.collections.get(name)
        return None if whole is None else whole[: len(whole) - self.lags]

    def found(self, search: dict[str, Any]) -> dict[str, Any]:
        """Rank by words in common; equal ones stay in order."""
        self.searches.append(search)
        lines = self.lines(search["collection"])
        if lines is None:
            return {"code": 404, "error": "Not found."}
        words, rows = set(search["q"].split()), [json.loads(line) for line in lines]
        scored = [(len(words & {*row["title"].split(), *row["text"].split()}), row) for row in rows]
        hits = sorted((one for one in scored if one[0]), key=lambda one: -one[0])
        at = (search["page"] - 1) * search["per_page"]
        return {
            "found": len(hits), "out_of": len(rows), "page": search["page"], "search_cutoff": False,
            "hits": [
                {"document": {"id": row["id"]}, "text_match": (1 << 58) + score}
                for score, row in hits[at : at + search["per_page"]]
            ],
        }  # fmt: skip


def handler_of(node: Node) -> type[BaseHTTPRequestHandler]:
    """Make what answers the requests of a node."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def parse_request(self) -> bool:
            self.close_connection = node.gone
            return not node.gone and super().parse_request()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            path, key = urlsplit(self.path).path, self.headers.get(HEADER)
            if key != KEY:
                _say(self, {"message": f"Forbidden: {key} is no key."}, 401)
            elif path == "/debug":
                _say(self, {"state": 1, "version": node.version})
            elif path == "/multi_search":
                _search(self, node, body)
            else:
                _collection(self, node, path, body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  the names that http.server looks for

    return Handler


def _search(handler: BaseHTTPRequestHandler, node: Node, body: str) -> None:
    fault = node.forever or (node.faults.pop(0) if node.faults else None)
    if fault:
        fault(handler)
    else:
        (search,) = json.loads(body)["searches"]
        _say(handler, {"results": [node.found(search)]})


def _collection(handler: BaseHTTPRequestHandler, node: Node, path: str, body: str) -> None:
    _, _, name, *rest = [*path.split("/"), ""]
    all_of, has = node.cluster.collections, node.lines(name)
    if not name:
        all_of[json.loads(body)["name"]] = []
        _say(handler, {}, 201)
    elif has is None:
        _say(handler, {"message": "Not Found"}, 404)
    elif handler.command == "DELETE":
        del all_of[name]
        _say(handler, {"name": name})
    elif "import" in rest:
        all_of[name] += body.splitlines()
        told = [
            REFUSED if json.loads(line)["id"] == node.refuses else TAKEN
            for line in body.splitlines()
        ]
        send(handler, 200, b"" if node.refuses == "all" else "\n".join(told).encode())
    elif "export" in rest:
        late, node.unwritten = min(node.unwritten, 1), max(node.unwritten - 1, 0)
        send(handler, 200, "\n".join(has[: len(has) - late]).encode())
    else:
        _say(handler, {"name": name, "num_documents": len(has)})


def _say(handler: BaseHTTPRequestHandler, told: object, code: int = 200) -> None:
    send(handler, code, json.dumps(told).encode())


@contextmanager
def serving(size: int = 3) -> Iterator[list[Node]]:
    """Serve nodes of one cluster, each on a port of its own."""
    cluster = Cluster()
    with ExitStack() as until_closed:
        nodes = [Node(cluster) for _ in range(size)]
        for node in nodes:
            listening = until_closed.enter_context(Server(("127.0.0.1", 0), handler_of(node)))
            node.url = f"http://127.0.0.1:{listening.server_address[1]}"
            thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            until_closed.callback(thread.join)
            until_closed.callback(listening.shutdown)
        try:
            yield nodes
        finally:
            for node in nodes:
                node.gone = True
