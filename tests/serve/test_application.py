"""``harness.serve.application`` and its ``pages``: what is asked for comes as it lies there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urljoin

import anyio
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from harness.pipeline.layout import Layout
from harness.report.explorer import to_explorer
from harness.report.html import script_source
from harness.report.page.view import to_page
from harness.serve.application import application
from harness.serve.shelf import folders
from tests.make import report_inputs
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
