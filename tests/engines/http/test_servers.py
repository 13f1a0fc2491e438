"""The ready files for search servers read answers in the vendors' documented formats."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from engines import registry as arms
from engines.stacks.http.connection import Malformed
from harness.core.records import Document
from tests.docs.pages import ROOT
from tests.engines.http.exchanges import EXCHANGES, RECORDED
from tests.make.search_server import Server, send

SERVERS = ROOT / "examples" / "http_engine" / "servers"
DOCUMENTS = (Document("a", "", "red cone"), Document("b", "", "blue cone"))
TEXT = 'red "cone"'


@contextmanager
def answering(answers: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve fixed answers by path; give the address, and what searches sent."""
    sent: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            sent.append({key: values[0] for key, values in parse_qs(asked.query).items()})
            send(self, 200, json.dumps(answers[asked.path]).encode())

        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            send(self, 200, json.dumps(answers[urlsplit(self.path).path]).encode())

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with Server(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.server_address[1]}", sent
        listening.shutdown()
        thread.join()


def test_each_file_has_an_exchange_and_says_whether_it_met_a_live_server() -> None:
    files = {path.stem: path.read_text("utf-8") for path in SERVERS.glob("*.toml")}
    assert files.keys() == EXCHANGES.keys()
    for name, text in files.items():
        says = "Tested against a live server" if name in RECORDED else "Not tested against a live"
        assert says in text, name


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_ready_file_reads_the_documented_format(
    name: str, tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = EXCHANGES[name]
    for variable in (
        "TYPESENSE_API_KEY",
        "MEILI_API_KEY",
        "ALGOLIA_APPLICATION",
        "ALGOLIA_API_KEY",
    ):
        monkeypatch.setenv(variable, "key")
    answers = dict(found.answers)
    with answering(answers) as (host, sent):
        text = (SERVERS / f"{name}.toml").read_text("utf-8")
        path = tmp_path / f"{name}.toml"
        path.write_text(re.sub(r"127\.0\.0\.1:\d+", host, text), encoding="utf-8")
        one = arms.load(str(path), tmp_path)
        made = one.build(DOCUMENTS, index)
        assert made.version.startswith(found.identity)
        with one.open(index) as searcher:
            sent.clear()
            hits = searcher.search(TEXT, 2).hits
            assert [hit.doc_id for hit in hits] == ["a", "b"]
            assert hits[0].raw_score >= hits[1].raw_score
            assert sent[0].items() >= found.sent.items()
            assert TEXT in json.dumps(sent[0]).replace('\\"', '"')
            if found.partial:
                answers[found.search] = found.answers[found.search] | found.partial
                with pytest.raises(Malformed, match="a partial answer"):
                    searcher.search(TEXT, 2)
