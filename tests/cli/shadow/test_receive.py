"""``harness shadow receive`` (shadow_receive) as it runs: two servers, a mirror, clients."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from harness.agreement import Class
from harness.core.errors import HarnessError
from harness.core.server import bound
from tests.cli.conftest import Harness
from tests.make.mail.project import BOUNDED_S, listening
from tests.make.shadow.live_log import written
from tests.make.shadow.servers import found_of
from tests.programs import PYTHON
from tests.source import ROOT

pytestmark = pytest.mark.slow
READING = ROOT / "examples" / "shadow" / "http.toml"
PAGE = ROOT / "docs" / "shadow.md"
CONFIGURATION = ROOT / "deploy" / "shadow" / "nginx.conf"
WORDS = ("apple", "bread", "cheese", "nothing")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


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

    def do_POST(self) -> None:
        """Answer as the candidate of docs/shadow.md, which has another API."""
        assert (self.path, self.headers["Authorization"]) == ("/find", "Bearer of-the-candidate")
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = found_of(asked["words"], asked["limit"])["hits"]
        hits = [{"key": one["_id"], "points": one["_score"]} for one in found["hits"]]  # type: ignore[index]
        body = json.dumps({"found": hits}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Search) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def words(control: str, candidate: str, folder: Path) -> list[str]:
    return [
        *PYTHON, "shadow", "receive", "--control", control,
        "--candidate", candidate, "--reading", str(READING), "--out", str(folder),
    ]  # fmt: skip


def test_mirrored_queries_are_in_the_log_and_a_stop_loses_none(tmp_path: Path) -> None:
    with serving() as control, serving() as candidate:
        start = words(control, candidate, tmp_path)
        with listening(start, ROOT) as (receiver, process), httpx.Client(trust_env=False) as client:
            for word in WORDS:
                assert client.get(f"{receiver}/search?q={word}").status_code == 204
            client.delete(f"{receiver}/search?q=apple")
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=BOUNDED_S)
            assert process.stdout is not None
            said = process.stdout.read()
    found = written(tmp_path, len(WORDS), within_s=BOUNDED_S)
    outcomes = sorted(one.outcome for one in found.observations)
    assert outcomes == [Class.BOTH_EMPTY, *[Class.EXACT] * 3]
    assert not found.degradations
    assert "4 attempts; lost: 0" in said
    assert "dropped: 1 (not a search)" in said


def test_a_request_is_translated_for_a_candidate_with_another_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is the one that docs/shadow.md shows."""
    (shown,) = re.findall(r"```toml\n(summary.*?)```", PAGE.read_text(), re.DOTALL)
    file, log = tmp_path / "candidate.toml", tmp_path / "log"
    file.write_text(shown)
    monkeypatch.setenv("CANDIDATE_TOKEN", "of-the-candidate")
    with serving() as control, serving() as candidate:
        start = [*words(control, candidate, log), "--candidate-reading", str(file)]
        with listening(start, ROOT) as (receiver, _), httpx.Client(trust_env=False) as client:
            for word in WORDS:
                client.get(f"{receiver}/search?q={word}&size=2")
            found = written(log, len(WORDS), within_s=BOUNDED_S)
    outcomes = sorted(one.outcome for one in found.observations)
    assert outcomes == [Class.BOTH_EMPTY, *[Class.EXACT] * 3]
    assert not any(b"of-the-candidate" in one.read_bytes() for one in log.iterdir())


def configured(folder: Path, port: int, control: str, receiver: str) -> list[str]:
    """Write the shipped configuration for other ports, and return the command that runs it."""
    text = CONFIGURATION.read_text()
    with bound("127.0.0.1", 0) as (_, url):
        between = urlsplit(url).netloc
    for shipped, here in (
        ("127.0.0.1:9200", urlsplit(control).netloc),
        ("127.0.0.1:9400", urlsplit(receiver).netloc),
        ("127.0.0.1:9401", between),
        ("listen 8080", f"listen 127.0.0.1:{port}"),
        ("/run/shadow-nginx", str(folder)),
    ):
        assert shipped in text
        text = text.replace(shipped, here)
    (folder / "nginx.conf").write_text(text)
    return [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]


@pytest.mark.skipif(not NGINX, reason="nginx is not installed")
def test_behind_nginx_users_get_the_control_whatever_the_receiver_does(tmp_path: Path) -> None:
    log, place = tmp_path / "log", tmp_path / "nginx"
    place.mkdir()
    with bound("127.0.0.1", 0) as (_, url):
        port = int(url.rpartition(":")[2])
    with serving() as control, serving() as candidate:
        start = words(control, candidate, log)
        with listening(start, ROOT) as (receiver, process), httpx.Client(trust_env=False) as client:
            front = subprocess.Popen(configured(place, port, control, receiver))
            try:
                answers = [reached(client, f"http://127.0.0.1:{port}/search?q={w}") for w in WORDS]
                found = written(log, len(WORDS), within_s=BOUNDED_S)
                process.kill()
                process.wait(timeout=BOUNDED_S)
                alone = client.get(f"http://127.0.0.1:{port}/search?q=apple")
            finally:
                front.terminate()
                front.wait(timeout=BOUNDED_S)
        direct = [httpx.get(f"{control}/search?q={word}", trust_env=False) for word in WORDS]
    assert [one.content for one in answers] == [one.content for one in direct]
    assert (alone.status_code, alone.content) == (200, direct[0].content)
    assert {one.outcome for one in found.observations} == {Class.EXACT, Class.BOTH_EMPTY}
    assert all(one.client for one in found.observations)


def reached(client: httpx.Client, url: str) -> httpx.Response:
    """Ask until the server is there."""
    for _ in range(200):
        try:
            return client.get(url)
        except httpx.ConnectError:
            continue
    raise AssertionError(f"{url} cannot be reached")


def test_a_candidate_that_is_gone_is_a_failure_in_the_log(tmp_path: Path) -> None:
    with serving() as control:
        start = words(control, "http://127.0.0.1:9", tmp_path)
        with listening(start, ROOT) as (receiver, _), httpx.Client(trust_env=False) as client:
            assert client.get(f"{receiver}/search?q=apple").status_code == 204
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
    assert says in harness("shadow", "receive", *flat).error


def test_a_port_that_is_taken_is_reported() -> None:
    with serving() as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(HarnessError, match="name another"), bound("127.0.0.1", port):
            pass
