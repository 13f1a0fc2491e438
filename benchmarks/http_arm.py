"""What the stack ``http`` adds to a request, and whether 16 in flight keep a server busy.

    python3 run.py python benchmarks/http_arm.py --queries 1500

The server is a local one whose answers do not change. For the second figure it works on one query
at a time, for 5 ms each. A replay has one query in flight; ``harness load`` has many.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx

from engines import registry
from harness.core.engine import Searcher
from harness.core.records import Document

K, WARMUP, IN_FLIGHT, WORK_S = 10, 100, 16, 0.005
DOCUMENTS = tuple(Document(f"d{at}", "", "text") for at in range(K))
ANSWER = json.dumps({
    "hits": [{"id": one.doc_id, "score": 1 / (at + 1)} for at, one in enumerate(DOCUMENTS)],
    "documents": K,
}).encode()
ARM = """summary = "A local server"
stack = "http"
[settings]
url = "{url}"
body = '{{"text": "${{text}}", "size": "${{k}}"}}'
hits = "hits"
id = "id"
score = "score"
timeout_s = 10.0
[[settings.probe]]
url = "{url}"
documents = "documents"
"""


@contextmanager
def serving(work_s: float) -> Iterator[tuple[str, list[float]]]:
    """Serve the answer after ``work_s`` seconds of work; give the address and the work done.

    It works on one query at a time.
    """
    worked: list[float] = []
    working = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if work_s and self.command == "POST":
                with working:
                    began = time.perf_counter()
                    time.sleep(work_s)
                    worked.append(time.perf_counter() - began)
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
            self.wfile.write(head + ANSWER)

        do_POST = do_GET  # noqa: N815  the name that http.server looks for

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/search", worked
        server.shutdown()


@contextmanager
def opened(url: str) -> Iterator[Searcher]:
    """Open an arm for the server."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "arm.toml").write_text(ARM.format(url=url), encoding="utf-8")
        (folder / "index").mkdir()
        arm = registry.load(str(folder / "arm.toml"), folder)
        arm.build(DOCUMENTS, folder / "index")
        with arm.open(folder / "index") as searcher:
            yield searcher


def added_ms(queries: int) -> tuple[float, float]:
    """Give the medians of a bare request and of the arm, in ms; the two take turns."""
    bare: list[float] = []
    arm: list[float] = []
    with serving(0) as (url, _), httpx.Client(trust_env=False) as client, opened(url) as searcher:
        for _ in range(queries + WARMUP):
            began = time.perf_counter()
            client.post(url, json={"text": "red", "size": K}).json()
            between = time.perf_counter()
            searcher.search("red", K)
            bare.append(between - began)
            arm.append(time.perf_counter() - between)
    return median(bare[WARMUP:]) * 1e3, median(arm[WARMUP:]) * 1e3


def busy_share(queries: int) -> float:
    """Give the share of time for which 16 queries in flight keep a server of 5 ms at work."""
    with (
        serving(WORK_S) as (url, worked),
        opened(url) as searcher,
        ThreadPoolExecutor(IN_FLIGHT) as pool,
    ):
        worked.clear()
        began = time.perf_counter()
        list(pool.map(lambda _: searcher.search("red", K), range(queries)))
        return sum(worked) / (time.perf_counter() - began)


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description="What the stack http adds to a request.")
    parser.add_argument("--queries", type=int, default=1500)
    queries = parser.parse_args().queries
    bare, arm = added_ms(queries)
    sys.stdout.write(f"bare p50 {bare:.3f} ms, arm p50 {arm:.3f} ms, added {arm - bare:.3f} ms\n")
    sys.stdout.write(
        f"{IN_FLIGHT} in flight: server at work {busy_share(queries):.1%} of the time\n"
    )


if __name__ == "__main__":
    main()
