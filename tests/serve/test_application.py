"""The server: routes, who may use them, and the command."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from threading import Event
from urllib.parse import urljoin

import anyio
import httpx
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from harness.cli import main
from harness.cli.command import err
from harness.core.errors import HarnessError
from harness.pipeline.layout import Layout
from harness.report.explorer import to_explorer
from harness.report.html import script_source
from harness.report.page.view import to_page
from harness.serve import commands as server
from harness.serve.application import HEADERS, Guard, application, loopback
from harness.serve.shelf import folders
from tests.make import report_inputs
from tests.programs import PYTHON, Program
from tests.serve.conftest import URL, make_pool, write_compared, write_decision

pytestmark = pytest.mark.slow
LINK = re.compile(r'href="(/[^"]*)"')
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def test_the_front_page_writes_times_as_the_report_does(client: TestClient) -> None:
    page = client.get("/").text
    assert 'Decided <time datetime="2026-11-21T21:00:00Z">2026-11-21 21:00 UTC</time>' in page
    assert 'valid until <time datetime="2026-12-21T21:00:00Z">2026-12-21 21:00 UTC</time>' in page
    assert re.search(r'Written <time datetime="[^"]+">\d{4}-\d\d-\d\d \d\d:\d\d UTC<', page)


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


@pytest.mark.parametrize(
    ("name", "kind"),
    [("index.html", "text/html; charset=utf-8"), ("report.md", "text/plain; charset=utf-8"),
     ("decision.json", "application/json"), ("junit.xml", "text/plain; charset=utf-8")],
)  # fmt: skip
def test_a_file_comes_byte_for_byte(site: Path, client: TestClient, name: str, kind: str) -> None:
    answer = client.get(f"/files/reports/{name}")
    wanted = (site / "reports" / name).read_bytes()
    assert answer.content == wanted
    assert answer.headers["content-type"] == kind
    head = client.head(f"/files/reports/{name}")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(wanted))
    assert head.headers["content-type"] == kind


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


def test_a_page_runs_the_scripts_of_our_pages_and_no_other(site: Path, client: TestClient) -> None:
    """What a page allows itself does not count: somebody else may have written it."""
    own: set[str] = set()
    for write in (to_page, to_explorer):
        found = SCRIPT.findall(write([report_inputs.compared_only()]))
        assert len(found) == 1
        own.update(map(script_source, found))
    allows = f"<meta http-equiv=Content-Security-Policy content={script_source('1')}>"
    (site / "reports" / "index.html").write_text(f"{allows}<script>1</script>", encoding="utf-8")
    policy = client.get("/files/reports/index.html").headers["content-security-policy"]
    (scripts,) = (part for part in policy.split("; ") if part.startswith("script-src "))
    assert set(scripts.split()[1:]) == own


@pytest.mark.parametrize("path", ["/nothing", "/files", "/judge", "/judge/out", "/state/x"])
def test_what_is_not_there_is_told_with_a_way_back(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert 'href="/"' in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/state", "/files/reports/index.html"])
def test_nothing_but_a_pool_can_be_changed(
    site: Path, client: TestClient, method: str, path: str
) -> None:
    before = (site / "reports" / "index.html").read_bytes()
    answer = client.request(method, path, headers={"origin": URL})
    assert answer.status_code == 405
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


def test_a_run_that_appears_and_one_that_goes_change_the_list(
    site: Path, client: TestClient
) -> None:
    first = client.get("/state").json()["stamp"]
    (site / "out" / "newer").mkdir()
    (site / "out" / "newer" / "index.html").write_text("page")
    second = client.get("/state", params={"stamp": first}).json()
    assert "out/newer" in second["list"]
    (site / "out" / "newer" / "index.html").unlink()
    assert client.get("/state").json()["stamp"] == first
    for file in (site / "reports").iterdir():
        file.unlink()
    for file in (site / "out" / "mine").rglob("*.html"):
        file.unlink()
    assert "No page is there now" in client.get("/").text


def test_the_progress_of_a_pool_changes_the_list(site: Path, client: TestClient) -> None:
    first = client.get("/state").json()
    path = site / "out" / "pool.qrels"
    path.write_text(path.read_text().replace("?", "1", 1))
    second = client.get("/state", params={"stamp": first["stamp"]}).json()
    assert "1 of 4 judged" in second["list"]
    assert second["files"] == first["files"]


def test_hostile_names_stay_words(site: Path, client: TestClient) -> None:
    """A folder, a data set and a file of a pool may be called anything."""
    evil = 'a"><script>window.executed = true<'
    folder = site / "out" / evil
    folder.mkdir()
    write_decision(folder, "<script>window.executed = true</script>\u202e")
    make_pool(folder / "p ü#?&;%.qrels")
    text = client.get("/").text
    assert "<script>window" not in text
    assert "\u202e" not in text
    links = [link for link in LINK.findall(text) if "executed" in link]
    assert len(links) == 4
    for link in links:
        assert client.get(link).status_code == 200, link


def test_a_report_with_nothing_decided_is_no_fault(site: Path, client: TestClient) -> None:
    file = site / "reports" / "decision.json"
    value = json.loads(file.read_text())
    value["datasets"][0]["steps"] = []
    file.write_text(json.dumps(value))
    assert "No step was judged" in client.get("/").text


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


def test_a_folder_that_vanishes_is_no_fault(site: Path) -> None:
    guard = application(folders([site / "reports"]), URL)
    for file in (site / "reports").iterdir():
        file.unlink()
    (site / "reports").rmdir()
    with TestClient(guard, base_url=URL) as client:
        client.get(guard.address)
        assert client.get("/").status_code == 200
        assert client.get("/files/reports/index.html").status_code == 404


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


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_without_the_token_nothing_is_shown(stranger: TestClient, method: str, path: str) -> None:
    answer = stranger.request(method, path, headers={"origin": URL})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    if method != "HEAD":
        assert "harness serve printed" in answer.text
        assert "after a restart" in answer.text


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


def test_the_token_alone_is_none_elsewhere(guard: Guard, stranger: TestClient) -> None:
    query = guard.address.partition("?")[2]
    assert stranger.get(f"/files/reports/index.html?{query}").status_code == 403
    assert stranger.post(f"/?{query}", headers={"origin": URL}).status_code == 403
    assert stranger.get(f"/?{query}x").status_code == 403
    assert stranger.get(f"/?{query.upper()}").status_code == 403


def test_who_has_the_cookie_may_open_an_old_address(client: TestClient) -> None:
    assert "Search reports" in client.get("/?token=of+yesterday").text


@pytest.mark.parametrize("cookie", ["", "x", "é", "harness-8642"])
def test_another_cookie_opens_nothing(stranger: TestClient, cookie: str) -> None:
    answer = stranger.get("/", headers=[(b"cookie", f"harness-8642={cookie}".encode())])
    assert answer.status_code == 403


def test_every_start_has_its_own_token_and_cookie(site: Path, client: TestClient) -> None:
    again = application(folders([site / "reports"]), URL)
    assert again.address != application(folders([site / "reports"]), URL).address
    with TestClient(again, base_url=URL, cookies=client.cookies) as other:
        assert other.get("/").status_code == 403


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_another_name_for_this_machine_is_refused(
    guard: Guard, client: TestClient, host: str
) -> None:
    """A stranger's name may lead here: what is asked by it comes from the stranger's page."""
    for path in ("/", "/files/reports/index.html", guard.address.removeprefix(URL)):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert "This name is not served" in answer.text


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8642", "localhost:8642", "LocalHost:8642", "[::1]:8642"]
)
def test_every_name_of_this_machine_is_served(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


def test_two_hosts_are_none(client: TestClient) -> None:
    hosts = [("host", "127.0.0.1:8642"), ("host", "127.0.0.1:8642")]
    assert client.get("/", headers=hosts).status_code == 403


@pytest.mark.parametrize("origin", OTHER_ORIGINS)
def test_only_a_page_of_this_server_may_change_something(
    site: Path, client: TestClient, origin: str
) -> None:
    before = (site / "out" / "pool.qrels").read_text()
    answer = client.post(POOL, content=b"x", headers={"origin": origin} if origin else {})
    assert answer.status_code == 403
    assert "Only the forms of this server" in answer.text
    assert (site / "out" / "pool.qrels").read_text() == before


def test_a_page_of_this_server_may(client: TestClient) -> None:
    named = {"host": "localhost:8642", "origin": "http://localhost:8642"}
    for headers in ({"origin": URL}, named):
        assert client.post(POOL, content=b"x", headers=headers).status_code == 400


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


def test_the_servers_own_pages_run_only_their_own_script(client: TestClient) -> None:
    for path in ("/", POOL, "/nothing"):
        policy = client.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert "base-uri 'none'" in policy


@pytest.mark.parametrize(
    ("host", "address"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1")]
)
def test_loopback_is_served(host: str, address: str) -> None:
    assert loopback(host) == address


@pytest.mark.parametrize(
    "host", ["0.0.0" + ".0", "::", "192.168.1.5", "127.0.0.2", "example.org", ""]
)
def test_what_other_machines_reach_is_not(host: str) -> None:
    with pytest.raises(HarnessError, match=r"this machine alone: 127\.0\.0\.1, ::1, localhost"):
        loopback(host)


@pytest.mark.parametrize("url", ["http://127.0.0.1:80", "http://[::1]:80"])
def test_the_usual_port_is_not_named_by_browsers(site: Path, url: str) -> None:
    guard = application(folders([site / "reports"]), url)
    with TestClient(guard, base_url=url.removesuffix(":80")) as client:
        assert client.get("/", headers={"host": "localhost"}).status_code == 403
        assert client.get(guard.address).status_code == 200


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


def test_a_job_of_a_shell_says_too_that_it_ended(site: Path) -> None:
    """A shell starts what ends in ``&`` with Ctrl-C ignored; the server listens to it again."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with started(site / "reports", "--port", "0") as (process, address):
            assert httpx.get(address, timeout=60).status_code in {200, 303}
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (process.returncode, rest) == (0, "stopped\n")


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Give the one line of an error with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["harness", "serve", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_port_that_is_taken_is_told(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = said(monkeypatch, capsys, str(site / "reports"), "--port", port)
    assert f"cannot serve on 127.0.0.1 port {port}" in line
    assert "name another" in line


@pytest.mark.parametrize("host", ["0.0.0" + ".0", "192.168.0.1", "example.org"])
def test_no_other_machine_is_served(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    monkeypatch.setattr("harness.core.server.server", lambda _: Server(None))
    line = said(monkeypatch, capsys, str(site / "reports"), "--host", host, "--port", "0")
    assert "to this machine alone" in line


def test_a_folder_without_a_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = said(monkeypatch, capsys, str(tmp_path))
    assert "holds no page and no pool. Name a folder with reports" in line


def test_a_project_without_a_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text("")
    (tmp_path / "reports").mkdir()
    monkeypatch.chdir(tmp_path)
    line = said(monkeypatch, capsys)
    assert "no page lies in reports, perf, out. Make some (harness demo" in line


class Server:
    """Stands for the server: waits for a browser to be opened, and is stopped by a Ctrl-C."""

    def __init__(self, opened: Event | None) -> None:
        self.opened = opened

    def run(self, sockets: list[socket.socket]) -> None:
        assert len(sockets) == 1
        if self.opened:
            assert self.opened.wait(20)
        raise KeyboardInterrupt


@pytest.mark.parametrize("works", [True, False])
def test_a_browser_is_opened_where_it_is_asked_for(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, works: bool
) -> None:
    opened, addresses = Event(), list[str]()

    def browse(address: str) -> bool:
        addresses.append(address)
        if works:
            opened.set()
        return works

    def tell(text: str, *, markup: bool) -> None:
        assert not markup
        sys.stderr.write(f"{text}\n")
        if "open the address yourself" in text:
            opened.set()

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr(err, "print", tell)
    monkeypatch.setattr("harness.core.server.server", lambda _: Server(None))
    server.serve([site / "reports"], port=0)
    assert addresses == []
    monkeypatch.setattr("harness.core.server.server", lambda _: Server(opened))
    capsys.readouterr()
    server.serve([site / "reports"], port=0, opened=True)
    first, *said, last = capsys.readouterr().err.splitlines()
    assert addresses == [first.removeprefix("serving ")]
    assert bool(said) is not works
    assert last == "stopped"


def test_the_usual_folders_are_those_that_hold_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text("")
    (tmp_path / "reports").mkdir()
    (tmp_path / "out").mkdir()
    make_pool(tmp_path / "out" / "pool.qrels")
    monkeypatch.chdir(tmp_path)
    served: list[str] = []

    def application(found: tuple[object, ...], *_: str) -> None:
        served.extend(str(one) for one in found)
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.serve.application.application", application)
    with pytest.raises(KeyboardInterrupt):
        server.serve(port=0)
    assert len(served) == 1
    assert "label='out'" in served[0]
    assert not capsys.readouterr().err
