"""Live comparisons of servers from the command line: the receiver of mirrored requests, and MCP."""

from __future__ import annotations

import json
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from resource import RLIMIT_FSIZE
from threading import Thread
from time import sleep
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
import pytest

from harness.agreement import Class
from harness.cli.project import Project
from harness.core.errors import HarnessError
from harness.core.run import Status
from harness.core.server import bound
from harness.pipeline.index import index
from harness.shadow.log import read_logs
from harness.shadow.mcp import McpServer, token_for
from harness.shadow.record import AGREED
from harness_engines.stacks.remote import McpConnection, ToolFailed, connected
from tests.cli.conftest import Harness
from tests.make.mail_project import ARM, BOUNDED_S, command, listening, write
from tests.make.mail_project import NAME as NAME_OF_MCP
from tests.make.shadow_log import written
from tests.make.shadow_servers import found_of
from tests.programs import PYTHON
from tests.source import ROOT

pytestmark = pytest.mark.slow
READING = ROOT / "examples" / "shadow" / "mcp.toml"
SETTINGS = ROOT / "policy" / "shadow.toml"
WATCHED = (
    "--bounds", ROOT / "policy" / "watch.toml", "--register", ROOT / "policy" / "accepted.toml",
)  # fmt: skip
ASKED: list[dict[str, Any]] = [
    {"project_key": "*", "query": "review plan", "limit": 7},
    {"project_key": "*", "query": "token broker", "sender": "Ann"},
    {"project_key": "*", "query": "nowhere to be found"},
]


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = write(tmp_path_factory.mktemp("letters"))
    index(project.layout(NAME_OF_MCP), ARM, project.cache)
    return project


def proxy(control: str, candidate: str, folder: Path, *more: str) -> list[str]:
    """Write the command; tokens that addresses end in are put into files."""
    tokens, servers = [], []
    for name, said in (("control", control), ("candidate", candidate)):
        server, _, token = said.partition("?token=")
        servers.append(server)
        if token:
            folder.parent.mkdir(exist_ok=True)
            file = folder.parent / f"{folder.name}-{name}-token"
            file.write_text(f"{token}\n")
            tokens += [f"--{name}-token", str(file)]
    return [
        *PYTHON, "shadow", "mcp", "--control", servers[0], *tokens,
        "--candidate", servers[1], "--reading", str(READING), "--out", str(folder),
        "--shadow-settings", str(SETTINGS), *more,
    ]  # fmt: skip


def without_times(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "explain"}


def tools(to: McpConnection) -> list[dict[str, Any]]:
    listed = to.portal.call(to.client.session.list_tools)
    return [tool.model_dump() for tool in listed.tools]


def test_over_http_a_client_sees_the_control_and_the_log_sees_both(
    letters: Project, tmp_path: Path
) -> None:
    fts5 = command("--http", "0", "--search-engine", "fts5")
    tantivy = command("--http", "0", "--search-engine", "tantivy")
    with (
        listening(fts5, letters.root) as (control, _),
        listening(tantivy, letters.root) as (candidate, _),
        listening(proxy(control, candidate, tmp_path, "--http", "0"), letters.root) as (url, _),
        connected([], control, BOUNDED_S) as direct,
        connected([], url, BOUNDED_S) as through,
    ):
        assert through.server == direct.server
        assert tools(through) == tools(direct)
        stream = {"Accept": "text/event-stream", "Origin": "http://elsewhere.test"}
        assert httpx.get(url, headers=stream, trust_env=False).status_code == 405
        for asked in ASKED:
            ours, theirs = (to.call("search_messages", asked) for to in (through, direct))
            assert without_times(ours) == without_times(theirs)
        refused = {"project_key": "no such project", "query": "review"}
        with pytest.raises(ToolFailed) as plain:
            direct.call("search_messages", refused)
        with pytest.raises(ToolFailed) as passed:
            through.call("search_messages", refused)
        assert str(passed.value) == str(plain.value)
        found = written(tmp_path, len(ASKED) + 1, within_s=BOUNDED_S)
    outcomes = [one.outcome for one in found.observations]
    assert [one.k for one in found.observations] == [7, 20, 20, 20]
    assert set(outcomes[:2]) <= AGREED | {Class.REORDER, Class.TIE_ORDER, Class.OVERLAP}
    assert outcomes[2:] == [Class.BOTH_EMPTY, Class.ERROR]
    assert not found.degradations
    refusal = found.divergences[-1]
    assert (refusal.control.status, refusal.candidate.status) == (Status.FAILED, Status.FAILED)
    assert "no such project" in refusal.control.error
    assert refusal.params["tool"] == "search_messages"


def test_over_pipes_with_servers_that_are_programs(letters: Project, tmp_path: Path) -> None:
    """The candidate ends before it answers; nobody who asks sees it."""
    start = proxy(shlex.join(command()), shlex.join([sys.executable, "-c", "0"]), tmp_path)
    whole = ["sh", "-c", f"cd {shlex.quote(str(letters.root))} && exec {shlex.join(start)}"]
    with connected(whole, "", BOUNDED_S) as through:
        answer = through.call("search_messages", ASKED[0])
        assert answer["served_by"]["engine"] == "tantivy"
        assert len(answer["result"]) == 7
        found = written(tmp_path, 1, within_s=BOUNDED_S)
    (one,) = found.observations
    assert one.control is not None
    assert (one.control.status, one.control.hits) == (Status.ANSWERED, 7)
    assert not one.compared
    assert found.degradations


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    assert token_for(None, None) == ""
    (tmp_path / "token").write_text("of-the-file\n")
    assert token_for(None, "of-the-environment") == "of-the-environment"
    assert token_for(tmp_path / "token", "of-the-environment") == "of-the-file"
    with pytest.raises(HarnessError, match="--control-token"):
        McpServer.of("https://a/mcp?token=x")


READING_RECEIVE = ROOT / "examples" / "shadow" / "http.toml"
PAGE = ROOT / "docs" / "shadow.md"
CONFIGURATION = ROOT / "deploy" / "shadow" / "nginx.conf"
WORDS = ("apple", "bread", "cheese", "nothing")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


class Search(BaseHTTPRequestHandler):
    """Finds documents by a word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        self._send(found_of(asked["q"][0], int(asked.get("size", ["10"])[0])))

    def do_POST(self) -> None:
        """Answer as the candidate of docs/shadow.md, which has another API."""
        assert (self.path, self.headers["Authorization"]) == ("/find", "Bearer of-the-candidate")
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = found_of(asked["words"], asked["limit"])["hits"]
        hits = [{"key": one["_id"], "points": one["_score"]} for one in found["hits"]]  # type: ignore[index]
        self._send({"found": hits})

    def _send(self, found: object) -> None:
        body = json.dumps(found).encode()
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
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def words(control: str, candidate: str, folder: Path) -> list[str]:
    return [
        *PYTHON, "shadow", "receive", "--control", control,
        "--candidate", candidate, "--reading", str(READING_RECEIVE), "--out", str(folder),
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


class Site(NamedTuple):
    """A search server behind nginx, with a receiver of its copies."""

    ask: Callable[[str], httpx.Response]
    """Of nginx, a word."""
    direct: list[bytes]
    """What the server itself answers to ``WORDS``."""
    receiver: subprocess.Popen[str]
    log: Path
    said: list[str]
    """On the receiver's error stream."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if not NGINX:
        pytest.skip("needs apt-get install nginx")
    place, log, said = tmp_path / "nginx", tmp_path / "log", list[str]()
    place.mkdir()
    with bound("127.0.0.1", 0) as (_, url):
        port = int(url.rpartition(":")[2])
    with (
        serving() as control,
        serving() as candidate,
        listening(words(control, candidate, log), ROOT, said) as (receiver, process),
        httpx.Client(trust_env=False) as client,
        subprocess.Popen(configured(place, port, control, receiver)) as front,
    ):
        direct = [client.get(f"{control}/search?q={word}").content for word in WORDS]
        asks = partial(_asked, client, f"http://127.0.0.1:{port}/search?q=")
        yield Site(asks, direct, process, log, said)
        front.terminate()


def _asked(client: httpx.Client, url: str, word: str) -> httpx.Response:
    return reached(client, f"{url}{word}")


def test_behind_nginx_users_get_the_control_whatever_the_receiver_does(site: Site) -> None:
    answers = [site.ask(word) for word in WORDS]
    found = written(site.log, len(WORDS), within_s=BOUNDED_S)
    site.receiver.kill()
    site.receiver.wait(timeout=BOUNDED_S)
    alone = site.ask(WORDS[0])
    assert [one.content for one in answers] == site.direct
    assert (alone.status_code, alone.content) == (200, site.direct[0])
    assert {one.outcome for one in found.observations} == {Class.EXACT, Class.BOTH_EMPTY}
    assert all(one.client for one in found.observations)


@pytest.mark.parametrize("how", ["full", "deleted"])
def test_behind_nginx_a_log_that_cannot_be_written_changes_no_answer_and_is_said(
    site: Site, harness: Harness, how: str
) -> None:
    """The disk is full where no file of the receiver may grow, and is freed again."""
    answers = [site.ask(word).content for word in WORDS]
    written(site.log, len(WORDS), within_s=BOUNDED_S)
    limited, (_, most) = psutil.Process(site.receiver.pid), resource.getrlimit(RLIMIT_FSIZE)
    shutil.rmtree(site.log) if how == "deleted" else limited.rlimit(RLIMIT_FSIZE, (1, most))
    site.ask(WORDS[0])
    until(lambda: "cannot be written" in "".join(site.said))
    answers += [site.ask(word).content for word in WORDS]
    if how == "full":
        limited.rlimit(RLIMIT_FSIZE, (most, most))
        until(lambda: read_logs(site.log).degradations)
        site.ask(WORDS[0])
        found = written(site.log, len(WORDS) + 1, within_s=BOUNDED_S)
        assert found.missing == 1
    site.receiver.terminate()
    assert site.receiver.wait(timeout=BOUNDED_S) == 2
    until(lambda: "attempt lost" in site.said[-1])
    assert len(site.said) == 3, "the address, what happened, and how it ended"
    assert answers == site.direct * 2
    if how == "full":
        assert harness("shadow", "report", site.log, "--out", "out/page", *WATCHED).code == 0
        told = json.loads(Path("out/page/shadow.json").read_text("utf-8"))
        assert told["tally"]["missing"] == 1
        refused = sum(one["times"] for one in told["not_taken"])
        assert 1 <= refused <= len(WORDS), "nginx drops a mirrored request after 50 ms"


def until(true: Callable[[], object]) -> None:
    for _ in range(round(BOUNDED_S / 0.05)):
        if true():
            return
        sleep(0.05)
    pytest.fail("it is still not so")


def reached(client: httpx.Client, url: str) -> httpx.Response:
    """Ask until the server is there."""
    for _ in range(200):
        try:
            return client.get(url)
        except httpx.ConnectError:
            continue
    raise AssertionError(f"{url} cannot be reached")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
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
        "--reading": str(READING_RECEIVE), "--out": str(tmp_path / "log"),
        "--shadow-settings": str(shipped), **changed,
    }  # fmt: skip
    flat = [word for pair in given.items() for word in pair]
    assert says in harness("shadow", "receive", *flat).error
