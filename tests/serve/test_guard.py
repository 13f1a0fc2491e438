"""``harness.serve.application``: nobody is answered but who was given the address."""

from __future__ import annotations

from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from harness.core.errors import HarnessError
from harness.serve.application import HEADERS, Guard, application, loopback
from harness.serve.shelf import folders
from tests.serve.conftest import URL

pytestmark = pytest.mark.slow
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
