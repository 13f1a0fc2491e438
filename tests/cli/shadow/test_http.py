"""``harness shadow http`` (shadow_http) as it runs: two servers, a proxy, clients over sockets."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from time import sleep
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from harness.agreement.classes import Class
from harness.core.errors import HarnessError
from harness.shadow.proxy.listening import bound
from tests.cli.conftest import Harness
from tests.make.mail.project import BOUNDED_S, listening
from tests.make.shadow.live_log import written
from tests.make.shadow.servers import found_of
from tests.programs import PYTHON
from tests.source import ROOT

pytestmark = pytest.mark.slow
READING = ROOT / "examples" / "shadow" / "http.toml"
WORDS = ("apple", "bread", "cheese", "nothing")


class Search(BaseHTTPRequestHandler):
    """Finds documents by a word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        body = json.dumps(found_of(asked["q"][0], int(asked.get("size", ["10"])[0]))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Server", "the control")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Late(Search):
    """Answers when it is told to."""

    asked, go = Event(), Event()

    def do_GET(self) -> None:
        self.asked.set()
        self.go.wait(BOUNDED_S)
        super().do_GET()


@contextmanager
def serving(answers: type[Search] = Search) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def words(control: str, candidate: str, folder: Path) -> list[str]:
    return [
        *PYTHON, "shadow", "http", "--control", control,
        "--candidate", candidate, "--reading", str(READING), "--out", str(folder),
    ]  # fmt: skip


def test_a_client_sees_the_control_and_the_log_sees_both(tmp_path: Path) -> None:
    with serving() as control, serving() as candidate:
        start = words(control, candidate, tmp_path)
        with listening(start, ROOT) as (proxy, process), httpx.Client(trust_env=False) as client:
            for word in WORDS:
                direct = client.get(f"{control}/search?q={word}")
                through = client.get(f"{proxy}/search?q={word}")
                assert through.content == direct.content
                assert sorted(map(str.lower, through.headers)) == sorted(
                    map(str.lower, direct.headers)
                )
                assert through.headers["x-server"] == "the control"
            found = written(tmp_path, len(WORDS), within_s=BOUNDED_S)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=BOUNDED_S)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes == [Class.EXACT] * 3 + [Class.BOTH_EMPTY]
    assert not found.degradations


def test_a_sigterm_loses_neither_an_answer_nor_its_observation(tmp_path: Path) -> None:
    """A stop lost eight of 200 observations; one by a signal had been tried between answers."""
    with serving(Late) as control, serving() as candidate, ThreadPoolExecutor(1) as threads:
        start = words(control, candidate, tmp_path)
        with listening(start, ROOT) as (proxy, process), httpx.Client(trust_env=False) as client:
            answer = threads.submit(client.get, f"{proxy}/search?q=apple", timeout=2 * BOUNDED_S)
            assert Late.asked.wait(BOUNDED_S)
            process.send_signal(signal.SIGTERM)
            with suppress(httpx.TransportError), httpx.Client(trust_env=False) as other:
                while process.poll() is None:
                    other.get(f"{proxy}/none", timeout=1.0)
                    sleep(0.05)
            Late.go.set()
            assert answer.result().json() == found_of("apple", 10)
            process.wait(timeout=BOUNDED_S)
    (found,) = written(tmp_path, 1, within_s=BOUNDED_S).observations
    assert found.outcome is Class.EXACT


def test_a_candidate_that_is_gone_is_seen_by_the_log_alone(tmp_path: Path) -> None:
    with serving() as control:
        start = words(control, "http://127.0.0.1:9", tmp_path)
        with listening(start, ROOT) as (proxy, _), httpx.Client(trust_env=False) as client:
            assert client.get(f"{proxy}/search?q=apple").json() == found_of("apple", 10)
            found = written(tmp_path, 1, within_s=BOUNDED_S)
    assert found.observations[0].outcome is Class.ERROR


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--control": "127.0.0.1:80"}, "is not an address of a server"),
        ({"--candidate": "file:///etc"}, "is not an address of a server"),
        ({"--reading": "absent.toml"}, "absent.toml"),
        ({"--host": "localhost"}, "not an address in numbers"),
        ({"--host": "192.0.2.1"}, "cannot serve on 192.0.2.1"),
    ],
)
def test_bad_input_is_one_line(
    harness: Harness, tmp_path: Path, changed: dict[str, str], says: str
) -> None:
    shipped = ROOT / "policy" / "shadow.toml"
    given = {
        "--control": "http://127.0.0.1:1", "--candidate": "http://127.0.0.1:1",
        "--reading": str(READING), "--out": str(tmp_path / "log"),
        "--shadow-settings": str(shipped), **changed,
    }  # fmt: skip
    flat = [word for pair in given.items() for word in pair]
    assert says in harness("shadow", "http", *flat).error


def test_a_port_that_is_taken_is_said() -> None:
    with serving() as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(HarnessError, match="name another"), bound("127.0.0.1", port):
            pass
