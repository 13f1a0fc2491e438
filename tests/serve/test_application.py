"""The server: routes, who may use them, and the command."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from http.cookies import SimpleCookie
from itertools import product
from pathlib import Path
from unittest.mock import AsyncMock
from urllib.parse import urlencode, urljoin

import anyio
import httpx
import pytest
from starlette.testclient import TestClient

from harness.core.errors import HarnessError
from harness.core.files import write_text
from harness.corpus import judgements
from harness.judge.judge import judge
from harness.pipeline.layout import Layout
from harness.serve.application import HEADERS, Guard, application, loopback, word_for
from harness.serve.shelf import PageFolder, entries, folders, look, progress
from tests.make import report_inputs
from tests.programs import PYTHON, Program
from tests.serve.conftest import SCALE, URL, make_pool, write_compared

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
    page = report_inputs.page_of(report_inputs.compared_only())
    (site / "reports" / "index.html").write_text(page, encoding="utf-8")
    answer = client.get("/files/reports/index.html")
    assert answer.text == page
    assert 'http-equiv="Content-Security-Policy" content="default-src' in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src" not in policy
    none = "connect-src", "form-action", "frame-ancestors", "frame-src", "base-uri", "object-src"
    for part in none:
        assert f"{part} 'none'" in policy
    data = client.get("/files/reports/decision.json").headers["content-security-policy"]
    assert data.startswith("default-src 'none'")


def test_nothing_but_a_pool_can_be_changed(site: Path, client: TestClient) -> None:
    before = (site / "reports" / "index.html").read_bytes()
    paths = "/", "/files/reports/index.html"
    for method, path in product(("POST", "PUT", "DELETE", "PATCH"), paths):
        assert client.request(method, path, headers={"origin": URL}).status_code == 405
    assert (site / "reports" / "index.html").read_bytes() == before


def test_a_client_that_leaves_within_a_form_is_no_fault(client: TestClient) -> None:
    """The terminal of the server showed a traceback."""
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    said = {"host": URL.removeprefix("http://"), "origin": URL, "cookie": cookie}
    scope = {
        "type": "http", "method": "POST", "path": POOL, "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in said.items()],
    }  # fmt: skip
    half = {"type": "http.request", "body": b"grade=", "more_body": True}
    receive, send = AsyncMock(side_effect=[half, {"type": "http.disconnect"}]), AsyncMock()
    anyio.run(client.app, scope, receive, send)
    assert send.await_args_list[0].args[0]["status"] == 400


PATHS = (
    "/", "/files/reports/index.html", "/judge/out/pool.qrels", "/nothing", "/?token=",
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
    assert stranger.post(guard.address, headers={"origin": URL}).status_code == 403
    answer = stranger.get(guard.address)
    assert answer.status_code == 200
    cookie = SimpleCookie(answer.headers["set-cookie"])["harness-8642"]
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "strict"
    assert [cookie[one] for one in ("path", "domain", "max-age")] == ["/", "", ""]
    assert 'http-equiv="refresh" content="0; url=/"' in answer.text
    front = stranger.get("/")
    assert front.status_code == 200
    assert "Search reports" in front.text
    token = guard.address.partition("=")[2]
    for secret, places in ((cookie.value, (guard.address, answer.text)),
                           (token, (front.text, answer.text))):  # fmt: skip
        assert len(secret) >= 40
        assert not any(secret in place for place in places)


def test_another_name_for_this_machine_is_refused(guard: Guard, client: TestClient) -> None:
    """A stranger's name may lead here: what is asked by it comes from the stranger's page."""
    for host, path in product(OTHER_HOSTS, ["/", guard.address.removeprefix(URL)]):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 403, host
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_every_name_of_this_machine_is_served(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": f"{host}:8642"}).status_code == 200


def test_only_a_page_of_this_server_may_change_something(site: Path, client: TestClient) -> None:
    before = (site / "out" / "pool.qrels").read_text()
    for origin in OTHER_ORIGINS:
        answer = client.post(POOL, content=b"x", headers={"origin": origin} if origin else {})
        assert answer.status_code == 403, origin
    assert (site / "out" / "pool.qrels").read_text() == before


@pytest.mark.parametrize("path", ["/", "/files/reports/index.html", POOL, "/nothing"])
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


def asked_raw(port: int, target: str) -> bytes:
    """Ask for a target as it is, which no client would send; return the status."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        opened.sendall(head.encode())
        return opened.makefile("rb").read().split()[1]


def test_it_serves_and_ends_at_a_ctrl_c(site: Path) -> None:
    words = [*PYTHON, "serve", str(site / "reports"), str(site / "out"), "--port", "0"]
    with Program(words, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said, address = process.stderr.readline().split()
        url = httpx.URL(address)
        assert (said, url.host) == ("serving", "127.0.0.1")
        assert url.params["token"]
        with httpx.Client(base_url=url.copy_with(query=None), timeout=60) as client:
            assert client.get("/").status_code == 403
            assert client.get(address).status_code == 200
            assert "Search reports" in client.get("/").text
            page = client.get("/files/reports/index.html")
            assert page.content == (site / "reports" / "index.html").read_bytes()
            for target in ("/files/../../etc/passwd", "/files/reports/../../x", "*", "//evil/"):
                assert asked_raw(url.port or 0, target) in {b"403", b"400"}
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        assert (process.returncode, rest) == (0, "stopped\n")


ORIGIN = {"origin": URL, "content-type": "application/x-www-form-urlencoded"}
LONG = "9" * (sys.int_info.default_max_str_digits + 1)
"""More digits than Python reads as a number."""
INPUT = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


class Judge:
    """Somebody at one tab, without JavaScript: presses what it shows, follows where it goes."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.see(POOL)

    def see(self, at: str) -> None:
        answer = self.client.get(at)
        assert answer.status_code == 200
        self.html = answer.text

    def press(self, *keys: str) -> int:
        """Press buttons with keys; return the last status, and look at what comes then."""
        for key in keys:
            name = f'name="key" value="{key}"'
            (of,) = (one for one in self.html.split("<form ")[1:] if name in one)
            assert f'action="{POOL}"' in of
            fields = {**dict(INPUT.findall(of.partition("</form>")[0])), "key": key}
            answer = self.client.post(POOL, content=urlencode(fields), headers=ORIGIN)
            if answer.status_code == 303:
                self.see(answer.headers["location"])
            else:
                self.html = answer.text
        return answer.status_code

    @property
    def query(self) -> str:
        match = re.search(r'class="asked"><bdi>(.*?)</bdi>', self.html)
        return match[1] if match else ""


@pytest.fixture
def path(site: Path) -> Path:
    return site / "out" / "pool.qrels"


def grades(path: Path) -> tuple[int | None, ...]:
    return judgements.read_pool(path).grades


def test_a_pair_is_shown_with_a_button_for_each_grade(client: TestClient) -> None:
    seen = Judge(client)
    assert seen.query == "question 0"
    for text in ("Title 0", "words of document 0", "d0", "0 of 4 pairs judged", "Pair 1 of 4"):
        assert text in seen.html
    assert [int(one) for one in re.findall(r'name="key" value="(\d)"', seen.html)] == list(SCALE)
    assert "undo" not in seen.html


def test_each_key_is_in_the_file_before_the_next_pair_is_shown(
    client: TestClient, path: Path
) -> None:
    judge = Judge(client)
    for at, key in enumerate("3012"):
        assert judge.query == f"question {at}"
        assert judge.press(key) == 303
        assert grades(path)[: at + 1] == tuple(map(int, "3012"[: at + 1]))
        assert f"{at + 1} of 4" in judge.html
    assert judge.query == ""
    assert "Every pair is judged" in judge.html
    assert f"harness judge {path} --merge" in judge.html


def test_it_goes_on_where_it_was_left_whoever_left_it(client: TestClient, path: Path) -> None:
    judge(path, "1s2q", lambda *_: None)
    mine = Judge(client)
    assert mine.query == "question 1"
    mine.press("3")
    assert mine.query == "question 3"
    assert grades(path) == (1, 3, 2, None)


def test_a_pair_is_left_open_and_the_last_ones_are_taken_back(
    client: TestClient, path: Path
) -> None:
    judge = Judge(client)
    judge.press(*"1s2")
    assert grades(path) == (1, None, 2, None)
    judge.press("u")
    assert (judge.query, grades(path)) == ("question 2", (1, None, None, None))
    judge.press("u")
    assert judge.query == "question 1"
    judge.press("u")
    assert (judge.query, grades(path)) == ("question 0", (None,) * 4)
    assert "undo" not in judge.html


def test_two_tabs_do_not_lose_a_grade_of_each_other(client: TestClient, path: Path) -> None:
    one, two = Judge(client), Judge(client)
    assert (one.press("2"), two.press("0")) == (303, 409)
    assert grades(path) == (2, None, None, None)
    assert "somebody else judged it 2 meanwhile; nothing was changed" in two.html
    assert two.query == "question 0"
    assert "judged 2 already, a key changes it" in two.html
    assert two.press("0") == 303
    assert (two.query, grades(path)) == ("question 1", (0, None, None, None))
    assert one.press("1") == 303
    assert grades(path) == (0, 1, None, None)


def test_hostile_words_stay_words(client: TestClient, path: Path) -> None:
    script = "<script>window.executed = true</script>"
    evil = f"</script>{script}<img src=x onerror=alert(1)>\"'\u202e\x00"
    (pair,) = make_pool(path, 1).pairs
    pair = pair.model_copy(update={"query": evil, "title": evil, "snippet": evil})
    write_text(judgements.texts_path(path), judgements.PAIRS.text([pair]))
    html = Judge(client).html
    assert not [one for one in ("<script>window", "<img", "\u202e") if one in html]
    assert html.count("&lt;script&gt;window.executed = true&lt;/script&gt;") == 3


def test_what_the_form_does_not_send_is_refused(client: TestClient, path: Path) -> None:
    word = word_for(judgements.read_pool(path).pairs[0])

    def status(**changed: str) -> int:
        fields = {"pair": word, "was": "", "done": "", "key": "1", **changed}
        body = urlencode({name: value for name, value in fields.items() if value != "-"})
        answer = client.post(POOL, content=body, headers=ORIGIN)
        assert (answer.status_code == 303) != ("This is not what the form sends" in answer.text)
        return answer.status_code

    for changed in WRONG:
        assert status(**changed) == 400, changed
        assert grades(path) == (None,) * 4
    assert status() == 303


WRONG: tuple[dict[str, str], ...] = (
    {"key": "4"}, {"key": "-1"}, {"key": "x"}, {"key": ""}, {"key": "²"}, {"pair": "0" * 64},
    {"was": "x"}, {"was": "-"}, {"pair": "-"}, {"more": "1"}, {"key": LONG}, {"was": LONG},
)  # fmt: skip


ASKED = (  # dots are written as %2e: the client would go up itself where they stand plainly
    "/files/reports/%2e%2e/secret.html", "/files/reports/%2e%2e%2fsecret.html", "/files/reports/",
    "/files/%2e%2e/reports/index.html", "/files/reports/mine/%2e%2e/index.html", "/files/reports",
    "/files//reports/index.html", "/files/", "/files/reports/index.html/", "/files//etc/passwd",
    "/files/reports/%2e/index.html", "/files/reports/index.html%00", "/files/reports/INDEX.HTML",
    "/files/reports\\index.html", "/files/etc/passwd", "/files/reports/page.html",
    "/files/reports/.index.html", "/files/out/pool.qrels", "/files/out/pool.qrels.jsonl",
    "/files/out/mine/work/index.html", "/files/out/mine/work/perf/index.html",
    "/files/out/mine/work/perf/decision.json", "/files/out/mine/work/perf/junit.xml",
    "/judge/out/mine/work/perf/p.qrels", "/files/out/work/perf/load.html",
    "/files/out/.hidden/index.html", "/judge/out/mine",
    "/files/elsewhere/index.html", "/judge/reports/index.html", "/judge/out/pool.qrels.jsonl",
    "/judge/%2e%2e/out/pool.qrels",
)  # fmt: skip


def test_links_lead_nowhere(spoiled: Path, client: TestClient) -> None:
    reports, out = spoiled / "reports", spoiled / "out"
    for link, to in {
        reports / "load.html": spoiled / "secret.html", out / "linked": spoiled,
        reports / "trends.html": reports / "index.html", out / "p.qrels": out / "pool.qrels",
        out / "p.qrels.jsonl": out / "pool.qrels.jsonl",
    }.items():  # fmt: skip
        link.symlink_to(to)
    pages = "reports/load.html", "reports/trends.html", "out/linked/reports/index.html"
    for path in (*(f"/files/{page}" for page in pages), "/judge/out/p.qrels"):
        assert client.get(path).status_code == 404
    found = set(look(folders([reports, out])).sheets)
    assert {"out/mine/index.html", "reports/index.html"} <= found
    assert not {*pages} & found


@pytest.fixture
def spoiled(site: Path) -> Path:
    """Put beside the pages what must not be served."""
    (site / "secret.html").write_text("secret")
    for name in ("page.html", ".index.html", "notes.txt"):
        (site / "reports" / name).write_text("secret")
    for name in (".hidden", "mine/work", "mine/runs"):
        (site / "out" / name).mkdir(exist_ok=True)
        (site / "out" / name / "index.html").write_text("secret")
    kept = site / "out" / "mine" / "work" / "perf"
    for name in ("index.html", "decision.json", "junit.xml", "p.qrels", "p.qrels.jsonl"):
        (kept / name).write_text("secret")
    return site


def test_what_is_not_listed_does_not_exist(spoiled: Path, client: TestClient) -> None:
    assert (spoiled / "secret.html").exists()
    for path in ASKED:
        answer = client.get(path)
        assert (answer.status_code, "secret" in answer.text) == (404, False), path


BEFORE, AFTER = datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 22, tzinfo=UTC)


def listed(site: Path, now: datetime = BEFORE) -> PageFolder:
    """Return the reports, as they are listed."""
    shelf = look(folders([site / "reports", site / "out"]))
    return {one.key: one for one in entries(shelf, now)}["reports"]


def test_a_report_is_listed_with_the_verdict_of_every_step_and_what_expired(site: Path) -> None:
    (before,), (after,) = listed(site).decided, listed(site, AFTER).decided
    assert (before.dataset, before.decided_at) == ("mail", "2026-11-21T21:00:00Z")
    assert before.steps == report_inputs.report().decisions
    assert (before.expired, after.expired) == (False, True)
    assert after._replace(expired=False) == before


def test_a_verdict_that_its_own_findings_do_not_give_is_not_shown(site: Path) -> None:
    file = site / "reports" / "decision.json"
    value = json.loads(file.read_text())
    value["datasets"][0]["steps"][0]["outcome"] = "rollback"
    file.write_text(json.dumps(value))
    entry = listed(site)
    assert entry.decided == ()
    assert entry.said.startswith("No verdict can be shown. reports/decision.json: step ")


def test_pools_are_listed_with_how_far_they_are(site: Path) -> None:
    path = site / "out" / "pool.qrels"
    judgements.regrade(path, judgements.read_pool(path).pairs[2], None, 3)
    whole = site / "out" / "a-whole.qrels"
    judgements.write_grades(whole, make_pool(whole, 1).graded(0, 1))
    broken = site / "out" / "broken.qrels"
    make_pool(broken)
    broken.write_text("no pool\n")
    found = progress(look(folders([site / "out"])))
    assert [(one.key, one.judged, one.of) for one in found] == [
        ("out/broken.qrels", 0, 0), ("out/pool.qrels", 1, 4), ("out/a-whole.qrels", 1, 1),
    ]  # fmt: skip
    assert f"{broken}:1:" in found[0].problem
    assert [bool(one.problem) for one in found] == [True, False, False]
