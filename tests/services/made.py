"""Search services of these tests: a catalogue, two rankings, four shapes of JSON, and faults."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlsplit

KINDS = ("lamp", "chair", "desk", "shelf", "rug", "mirror")
COLOURS = ("red", "green", "blue", "white", "black")
STUFFS = ("oak", "steel", "glass", "wool", "cork", "brass")
GOODS = tuple(
    {"sku": f"p{at:03}", "title": f"{colour} {stuff} {kind}", "about": f"A {kind} of {stuff}."}
    for at, (kind, colour, stuff) in enumerate(product(KINDS, COLOURS, STUFFS))
)
Hit = tuple[dict[str, str], float]


def ranked(text: str, k: int, *, newer: bool = False) -> list[Hit]:
    """Rank by words in common; the newer one also takes the plural, and breaks ties otherwise."""
    words = text.lower().split()
    if newer:
        words = [word.removesuffix("s") for word in words]
    found = [(one, float(sum(word in one["title"].split() for word in words))) for one in GOODS]
    order = -1 if newer else 1
    hits = sorted(
        (hit for hit in found if hit[1]), key=lambda hit: (-hit[1], order * int(hit[0]["sku"][1:]))
    )
    return hits[:k]


def plain(hits: list[Hit]) -> object:
    return [{"id": one["sku"], "title": one["title"]} for one, _ in hits]


def elastic(hits: list[Hit]) -> object:
    listed = [{"_id": one["sku"], "_score": s, "_source": one} for one, s in hits]
    return {"took": 3, "timed_out": False, "hits": {"total": {"value": 9}, "hits": listed}}


def solr(hits: list[Hit]) -> object:
    docs = [{"id": one["sku"], "title": [one["title"]], "score": s} for one, s in hits]
    return {"responseHeader": {"status": 0}, "response": {"numFound": 9, "docs": docs}}


def typesense(hits: list[Hit]) -> object:
    facets = [{"field_name": "kind", "counts": []}]
    listed = [
        {"document": {"id": one["sku"], **one}, "highlights": [], "text_match": int(100 * s)}
        for one, s in hits
    ]
    return {"facet_counts": facets, "found": 9, "hits": listed}


SHAPES: dict[str, Callable[[list[Hit]], object]] = {
    one.__name__: one for one in (plain, elastic, solr, typesense)
}


@dataclass
class Service:
    """What is served, and what goes wrong."""

    base: str = ""
    fault: Callable[[str, BaseHTTPRequestHandler], bool] = lambda *_: False
    """Whether it answered a text itself."""
    asked: int = 0

    def at(self, shape: str, version: str = "v1", rest: str = "?q={query}&size={k}") -> str:
        """Return an address of it."""
        return f"{self.base}/{shape}/{version}{rest}"


def send(handler: BaseHTTPRequestHandler, code: int, said: bytes) -> bool:
    """Answer whole."""
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(said)))
    handler.end_headers()
    handler.wfile.write(said)
    return True


@contextmanager
def serving() -> Iterator[Service]:
    """Serve on a port of its own."""
    told = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            told.asked += 1
            asked = urlsplit(self.path)
            given = {name: values[0] for name, values in parse_qs(asked.query).items()}
            text, k = given.get("q", ""), int(given.get("size", 12))
            if told.fault(text, self):
                return
            _, shape, version = asked.path.split("/")
            hits = ranked(text, k, newer=version == "v2")
            send(self, 200, json.dumps(SHAPES[shape](hits)).encode())

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        told.base = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield told
        finally:
            listening.shutdown()
            thread.join()


def write_log(path: Path, requests: int = 600) -> Path:
    """Write a CSV log: people, one robot with 148 lines, and requests that failed."""
    rng = Random(7)
    texts = [
        " ".join(filter(None, words))
        for words in product(("", *COLOURS), ("", *STUFFS), (*KINDS, *(f"{k}s" for k in KINDS)))
    ]
    rows = ["time,query,user,user_agent,status"]
    for at in range(requests):
        text = texts[min(int(rng.paretovariate(0.6)), len(texts)) - 1]
        rows.append(f"{at},{text},u{rng.randrange(90)},Mozilla/5.0,200")
    rows += [f"{at},robot words {at},r,Googlebot/2.1,200" for at in range(148)]
    rows += [f"{at},failed words {at},u1,Mozilla/5.0,503" for at in range(9)]
    path.write_text("\n".join(rows) + "\n")
    return path


if __name__ == "__main__":
    with serving() as here:
        print(here.base, flush=True)  # noqa: T201
        threading.Event().wait()
