"""A search server of another make: the package bm25s behind Python's own HTTP server.

    python3 run.py python examples/other_engine/server.py CORPUS.jsonl --port 8771

POST /search takes {"text": ..., "size": ...}, GET /status says what is served. It shares no code
with the engines here: bm25s cuts words, scores (Lucene's BM25) and ranks.
"""  # noqa: INP001  started by its path; it belongs to no package

import argparse
import json
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import bm25s


class Index:
    """Documents of a file of JSON lines (_id or doc_id, title, text), in memory."""

    def __init__(self, corpus: Path) -> None:
        text = corpus.read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        self.ids = sorted(str(row.get("_id", row.get("doc_id"))) for row in rows)
        by_id = {str(row.get("_id", row.get("doc_id"))): row for row in rows}
        texts = [f"{by_id[one].get('title', '')} {by_id[one]['text']}" for one in self.ids]
        self.generation = sha256(text.encode()).hexdigest()[:12]
        self.bm25 = bm25s.BM25(method="lucene")
        self.bm25.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def found(self, text: str, size: int) -> list[dict[str, Any]]:
        """Return the best documents; of equal scores, the smaller id comes first."""
        words = bm25s.tokenize([text], show_progress=False, return_ids=False)[0]
        known = [word for word in words if word in self.bm25.vocab_dict]
        if not known:
            return []
        scores = self.bm25.get_scores(known)
        best = sorted((-float(score), at) for at, score in enumerate(scores) if score > 0)
        return [{"doc": self.ids[at], "bm25": -less} for less, at in best[:size]]


class Answers(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits until its head was acknowledged: 40 ms
    index: ClassVar[Index]

    def do_GET(self) -> None:
        """Say what is served."""
        said = {"version": bm25s.__version__, "count": len(self.index.ids)}
        self._send(200 if self.path == "/status" else 404, said)

    def do_POST(self) -> None:
        """Search."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            wanted = json.loads(body)
            results = self.index.found(str(wanted["text"]), int(wanted["size"]))
        except (ValueError, KeyError, TypeError) as exc:
            self._send(400, {"error": repr(exc)})
            return
        self._send(200 if self.path == "/search" else 404, {"results": results})

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def _send(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps({**said, "index": self.index.generation}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def server(corpus: Path, port: int) -> ThreadingHTTPServer:
    """Index the documents, and listen on this machine."""

    class Handler(Answers):
        index: ClassVar = Index(corpus)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A search server over bm25s.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    with server(given.corpus, given.port) as serving:
        serving.serve_forever()


if __name__ == "__main__":
    main()
