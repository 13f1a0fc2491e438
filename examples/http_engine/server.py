"""A search server to try ``over_http`` on: whoever shares more words with the question wins.

    python3 run.py python examples/http_engine/server.py CORPUS.jsonl --port 8770

GET /version tells what it is, GET /search?q=...&k=... answers. It is a toy: nothing in it is quick.
"""  # noqa: INP001  started by its path; it belongs to no package

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

WORD = re.compile(r"\w+")


def words(text: str) -> frozenset[str]:
    """Split into lower-cased words."""
    return frozenset(WORD.findall(text.lower()))


def server(corpus: Path, port: int) -> ThreadingHTTPServer:
    """Read documents as JSON lines (_id or doc_id, title, text), and listen on this machine."""
    text = corpus.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line.strip()]

    class Handler(Answers):
        documents: ClassVar = {
            str(row.get("_id", row.get("doc_id"))): words(f"{row.get('title', '')} {row['text']}")
            for row in rows
        }
        version: ClassVar = sha256(text.encode()).hexdigest()[:12]

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


class Answers(BaseHTTPRequestHandler):
    """Answers one request."""

    documents: ClassVar[Mapping[str, frozenset[str]]]
    version: ClassVar[str]
    """What is served is part of what answers: other documents are another version."""

    def do_GET(self) -> None:
        """Tell the version, or search."""
        asked = urlsplit(self.path)
        said: dict[str, Any] = {"version": self.version}
        if asked.path == "/search":
            given = parse_qs(asked.query)
            said["hits"] = self._found(words(given.get("q", [""])[0]), int(given["k"][0]))
        body = json.dumps(said).encode()
        self.send_response(200 if asked.path in {"/search", "/version"} else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def _found(self, asked: Iterable[str], k: int) -> list[dict[str, str | int]]:
        wanted = frozenset(asked)
        scored = ((-len(wanted & of), doc_id) for doc_id, of in self.documents.items())
        return [{"id": doc_id, "score": -less} for less, doc_id in sorted(scored)[:k] if less]


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A toy search server.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    with server(given.corpus, given.port) as serving:
        serving.serve_forever()


if __name__ == "__main__":
    main()
