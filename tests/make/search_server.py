"""The local search server of these tests: five documents, a probe, and faults in a queue."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.core.records import Document
from tests.make import write_beir

DOCUMENTS = tuple(
    Document(f"d{at}", "", text)
    for at, text in enumerate(("red cone", "red cube", "blue cone", "green ball", "red ball"))
)
LINES = {
    "url": '"{base}/search"', "method": '"POST"', "hits": '"hits"', "id": '"id"',
    "body": """'{{"text": "${{text}}", "size": "${{k}}"}}'""", "score": '"score"',
    "timeout_s": "5.0", "retries": "2",
    "probe_url": '"{base}/about"', "probe_version": '"version"', "probe_documents": '"documents"',
    "probe_generation": '"generation"',
}  # fmt: skip
Fault = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Served:
    """What the server is told to do, and what it was sent."""

    base: str
    faults: list[Fault] = field(default_factory=list)
    """Each spoils one search, in order; the last one stays where ``forever`` is set."""
    forever: bool = False
    change: Callable[[dict[str, Any]], object] = lambda _: None
    generation: int = 1
    sent: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    probed: int = 0
    gone: bool = False
    """Whether open connections are dropped too."""
    after: int | None = None
    """Searches after which the generation moves."""

    def toml(self, **changed: str | None) -> str:
        """Write an arm; a name that begins with ``probe_`` is of the probe, but for its rhythm."""
        lines = {key: line.format(base=self.base) for key, line in LINES.items()} | changed
        of: dict[bool, list[str]] = {False: [], True: []}
        for key, line in lines.items():
            probe = key.startswith("probe_") and not key.endswith("_s")
            if line is not None:
                of[probe].append(f"{key.removeprefix('probe_') if probe else key} = {line}")
        head = ['summary = "A server of a test"', 'stack = "http"', "[settings]"]
        return "\n".join([*head, *of[False], "[[settings.probe]]", *of[True], ""])

    def found(self, text: str, size: int) -> dict[str, Any]:
        """Rank by words in common; equal ones stay in order."""
        words = set(text.split())
        counted = [(len(words & set(one.text.split())), one.doc_id) for one in DOCUMENTS]
        hits = sorted(((n, doc_id) for n, doc_id in counted if n), key=lambda one: -one[0])
        shown = [{"id": doc_id, "score": float(n)} for n, doc_id in hits[:size]]
        answer = {"hits": shown, "generation": self.generation}
        self.change(answer)
        return answer


def status(code: int, said: str = "", **headers: str) -> Fault:
    """Answer with a status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        send(handler, code, said.encode(), **headers)

    return answer


def body(said: bytes) -> Fault:
    """Answer 200 with these bytes."""
    return lambda handler: send(handler, 200, said)


def half(handler: BaseHTTPRequestHandler) -> None:
    """Promise more than is sent, and close."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"hits": [')
    handler.close_connection = True


def slow(seconds: float) -> Fault:
    """Answer after a while."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        send(handler, 200, b'{"hits": []}')

    return answer


def send(handler: BaseHTTPRequestHandler, code: int, said: bytes, **headers: str) -> None:
    """Answer whole."""
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(said)))
    handler.end_headers()
    handler.wfile.write(said)


def handler_of(told: Served) -> type[BaseHTTPRequestHandler]:
    """Make what answers the requests of one server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def parse_request(self) -> bool:
            self.close_connection = told.gone
            return not told.gone and super().parse_request()

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path == "/about":
                told.probed += 1
                about = {"version": "7", "documents": len(DOCUMENTS), "generation": told.generation}
                send(self, 200, json.dumps(about).encode())
                return
            given = {name: values[0] for name, values in parse_qs(asked.query).items()}
            self._search(asked.path, given)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._search(urlsplit(self.path).path, json.loads(self.rfile.read(length) or b"{}"))

        def _search(self, path: str, given: dict[str, Any]) -> None:
            told.sent.append(given)
            told.headers.append(dict(self.headers))
            if told.faults:
                fault = told.faults[0] if told.forever else told.faults.pop(0)
                fault(self)
            elif path != "/search":
                send(self, 404, b'{"error": "no such index"}')
            else:
                answer = told.found(str(given.get("text", "")), int(given.get("size", 10)))
                send(self, 200, json.dumps(answer).encode())
            if told.after is not None and len(told.sent) >= told.after:
                told.generation = 2

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    return Handler


class Server(ThreadingHTTPServer):
    """Closes without waiting for its clients."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Stay silent: clients of these tests hang up."""


@contextmanager
def listening(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Answer on a port of its own; yield the address."""
    with Server(("127.0.0.1", 0), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    """Serve on a port of its own."""
    told = Served("")
    with listening(handler_of(told), tls) as told.base:
        try:
            yield told
        finally:
            told.gone = True


def collection(folder: Path) -> Path:
    """Write the documents with four judged queries in BEIR layout."""
    rows = [{"_id": one.doc_id, "title": one.title, "text": one.text} for one in DOCUMENTS]
    texts = ("red cone", "blue cone", "green ball", "red cube")
    asked = [{"_id": f"q{at}", "text": text} for at, text in enumerate(texts)]
    judged = ((f"q{at}", f"d{doc}", 1) for at, doc in enumerate((0, 2, 3, 1)))
    return write_beir(folder, rows, asked, judged)
