"""The server: routes, who may use them, and the command."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.cookies import SimpleCookie
from itertools import product
from pathlib import Path
from urllib.parse import urljoin

import anyio
import httpx
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from harness.cli import main
from harness.core.errors import HarnessError
from harness.pipeline.layout import Layout
from harness.report.page.view import to_page
from harness.serve.application import HEADERS, Guard, application, loopback
from harness.serve.shelf import folders
from tests.make import report_inputs
from tests.programs import PYTHON, Program
from tests.serve.conftest import URL, write_compared, write_decision

pytestmark = pytest.mark.slow
LINK = re.compile(r'href="(/[^"]*)"')


def test_every_link_of_the_front_page_leads_somewhere(client: TestClient) -> None:
    links = LINK.findall(client.get("/").text)
    assert {
        "/files/reports/index.html", "/files/out/mine/index.html",
        "/files/out/mine/work/perf/load.html", "/judge/out/pool.qrels",
    } <= {*links}  # fmt: skip
    for link in links:
        assert client.get(link).status_code == 200, link


@pytest.mark.parametrize("served", [("out",), ("out/mine",), ("reports", "perf", "out")], ids=str)
def test_every_link_of_a_report_leads_somewhere(site: Path, served: Sequence[str]) -> None:
    """The page of a load lies in a run's own folder, and in a project beside its reports."""
    build, perf = site / "build" / "mail", site / "perf" / "mail"
    write_compared(site / "reports", Layout(build, perf, site / ".cache"))
    guard = application(folders([site / name for name in served]), URL)
    with TestClient(guard, base_url=URL) as client:
        client.get(guard.address)
        reports = {link for link in LINK.findall(client.get("/").text) if "index.html" in link}
        assert reports
        for report in reports:
            links = re.findall(r'<a href="([^#"]+)"', client.get(report).text)
            assert any(link.endswith("load.html") for link in links), report
            for link in links:
                assert client.get(urljoin(report, link)).status_code == 200, (report, link)


def test_a_page_keeps_its_own_policy(site: Path, client: TestClient) -> None:
    """What the header adds forbids, and allows nothing that the page's own policy does not."""
    page = to_page([report_inputs.compared_only()])
    (site / "reports" / "index.html").write_text(page, encoding="utf-8")
    answer = client.get("/files/reports/index.html")
    assert answer.text == page
    assert 'http-equiv="Content-Security-Policy" content="default-src' in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src" not in policy
    for part in (
        "connect-src", "form-action", "frame-ancestors", "frame-src", "base-uri", "object-src",
    ):  # fmt: skip
        assert f"{part} 'none'" in policy
    data = client.get("/files/reports/decision.json").headers["content-security-policy"]
    assert data.startswith("default-src 'none'")


def test_nothing_but_a_pool_can_be_changed(site: Path, client: TestClient) -> None:
    before = (site / "reports" / "index.html").read_bytes()
    for method, path in product(
        ["POST", "PUT", "DELETE", "PATCH"], ["/", "/state", "/files/reports/index.html"]
    ):
        assert client.request(method, path, headers={"origin": URL}).status_code == 405
    assert (site / "reports" / "index.html").read_bytes() == before


def test_the_state_gives_the_list_only_where_it_is_another_one(
    site: Path, client: TestClient
) -> None:
    first = client.get("/state").json()
    assert "reports/index.html" in first["files"]
    assert f'data-stamp="{first["stamp"]}"' in client.get("/").text
    again = client.get("/state", params={"stamp": first["stamp"]}).json()
    assert again == {**first, "list": None}
    write_decision(site / "reports", "renewed")
    now = client.get("/state", params={"stamp": first["stamp"]}).json()
    assert now["stamp"] != first["stamp"]
    assert "renewed" in now["list"]
    changed = {key for key, value in now["files"].items() if first["files"].get(key) != value}
    assert "reports/index.html" in changed
    assert "out/mine/index.html" not in changed


def test_a_client_that_leaves_within_a_form_is_no_fault(client: TestClient) -> None:
    """The terminal of the server showed a traceback."""
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    said = {"host": URL.removeprefix("http://"), "origin": URL, "cookie": cookie}
    scope = {
        "type": "http", "method": "POST", "path": "/judge/out/pool.qrels", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in said.items()],
    }  # fmt: skip
    came: Iterator[Message] = iter([
        {"type": "http.request", "body": b"grade=", "more_body": True},
        {"type": "http.disconnect"},
    ])
    sent: list[Message] = []

    async def receive() -> Message:
        return next(came)

    async def send(message: Message) -> None:
        sent.append(message)

    anyio.run(client.app, scope, receive, send)
    assert sent[0]["status"] == 400


PATHS = (
    "/", "/state", "/files/reports/index.html", "/judge/out/pool.qrels", "/nothing", "/?token=",
    "/?token=guessed", "/?token=%00%ff", "/?token=é",
)  # fmt: skip
POOL = "/judge/out/pool.qrels"
OTHER_HOSTS = (
    "evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8643",
    "127.0.0.1.evil.example:8642", "localhost", "0.0.0.0:8642", "127.1:8642", "user@127.0.0.1:8642",
    "[::1]:1", "",
)  # fmt: skip
OTHER_ORIGINS = (
    "http://evil.example", "null", "", "http://127.0.0.1", "http://127.0.0.1:8643",
    "https://127.0.0.1:8642", "http://localhost:8642", "http://127.0.0.1:8642/", "file://",
)  # fmt: skip


def test_without_the_token_nothing_is_shown(stranger: TestClient) -> None:
    for method, path in product(["GET", "HEAD", "POST", "PUT", "OPTIONS"], PATHS):
        answer = stranger.request(method, path, headers={"origin": URL})
        assert answer.status_code == 403, (method, path)
        assert "set-cookie" not in answer.headers
        assert method == "HEAD" or "harness serve printed" in answer.text


def test_the_token_is_exchanged_for_a_cookie(guard: Guard, stranger: TestClient) -> None:
    answer = stranger.get(guard.address)
    assert answer.status_code == 200
    cookie = SimpleCookie(answer.headers["set-cookie"])["harness-8642"]
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "strict"
    assert cookie["path"] == "/"
    assert cookie["domain"] == cookie["max-age"] == ""
    assert cookie.value not in guard.address
    assert len(cookie.value) >= 40
    assert cookie.value not in answer.text
    assert 'http-equiv="refresh" content="0; url=/"' in answer.text
    front = stranger.get("/")
    assert front.status_code == 200
    assert "Search reports" in front.text
    token = guard.address.partition("=")[2]
    assert len(token) >= 40
    assert token not in front.text + answer.text


def test_another_name_for_this_machine_is_refused(guard: Guard, client: TestClient) -> None:
    """A stranger's name may lead here: what is asked by it comes from the stranger's page."""
    for host, path in product(OTHER_HOSTS, ["/", guard.address.removeprefix(URL)]):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 403, host
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8642", "localhost:8642", "LocalHost:8642", "[::1]:8642"]
)
def test_every_name_of_this_machine_is_served(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


def test_only_a_page_of_this_server_may_change_something(site: Path, client: TestClient) -> None:
    before = (site / "out" / "pool.qrels").read_text()
    for origin in OTHER_ORIGINS:
        answer = client.post(POOL, content=b"x", headers={"origin": origin} if origin else {})
        assert answer.status_code == 403, origin
    assert (site / "out" / "pool.qrels").read_text() == before


@pytest.mark.parametrize("path", ["/", "/state", "/files/reports/index.html", POOL, "/nothing"])
def test_every_answer_is_kept_by_nobody_and_framed_by_nobody(
    stranger: TestClient, guard: Guard, path: str
) -> None:
    refused = stranger.get(path)
    stranger.get(guard.address)
    for answer in (refused, stranger.get(path), stranger.head(path)):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    assert HEADERS["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["0.0.0" + ".0", "::", "192.168.1.5", "127.0.0.2", "example.org", ""]
)
def test_what_other_machines_reach_is_not(host: str) -> None:
    with pytest.raises(HarnessError, match=r"this machine alone: 127\.0\.0\.1, ::1, localhost"):
        loopback(host)


ADDRESS = re.compile(r"^serving (http://(\S+):(\d+)/\?token=\S+)$")


@contextmanager
def started(*words: str | Path) -> Iterator[tuple[Program, str]]:
    """Start the command; give the process and the address that it prints."""
    process = Program([*PYTHON, "serve", *words], stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        line = process.stderr.readline().strip()
        found = ADDRESS.match(line)
        assert found, line
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def asked_raw(port: int, target: str) -> bytes:
    """Ask for a target as it is, which no client would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        opened.sendall(head.encode())
        parts = iter(lambda: opened.recv(65536), b"")
        return b"".join(parts)


def test_it_serves_and_ends_at_a_ctrl_c(site: Path) -> None:
    with started(site / "reports", site / "out", "--port", "0") as (process, address):
        url = httpx.URL(address)
        assert url.host == "127.0.0.1"
        with httpx.Client(base_url=url.copy_with(query=None), timeout=60) as client:
            assert client.get("/").status_code == 403
            assert client.get(address).status_code == 200
            assert "Search reports" in client.get("/").text
            page = client.get("/files/reports/index.html")
            assert page.content == (site / "reports" / "index.html").read_bytes()
            for target in ("/files/../../etc/passwd", "/files/reports/../../x", "*", "//evil/"):
                assert asked_raw(url.port or 0, target).split()[1] in {b"403", b"400"}
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
        assert process.returncode == 0
        assert rest == "stopped\n"


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Give the one line of an error with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["harness", "serve", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line
