"""Live comparison and clicks from the command line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from mcp import MCPError
from rich.console import Console
from rich.live import Live

from harness.agreement import Class
from harness.cli.project import Project
from harness.clicks.credit import Click, ClickLog, ShownList
from harness.core.errors import BadFile, HarnessError, IndexNotReady
from harness.core.run import Status
from harness.core.server import bound
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.report.doc import render_terminal
from harness.shadow import commands as shadow
from harness.shadow.commands import FOLDER, log_folder, log_of, screen, today
from harness.shadow.comparison import ShadowLog
from harness.shadow.mcp import McpServer, mcp_candidate, token_for
from harness.shadow.record import AGREED
from harness.shadow.server import Unreadable
from harness.shadow.settings import read_reading
from harness.shadow.words import LogState
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness_engines.stacks.remote.mcp import Connection, ToolFailed, connected
from tests.cli import click_log
from tests.cli.conftest import Harness
from tests.make.mail.project import ARM, BOUNDED_S, command, listening, write
from tests.make.mail.project import NAME as NAME_OF_MCP
from tests.make.shadow import live_log
from tests.make.shadow.attempts import WATCH
from tests.make.shadow.live_log import written
from tests.make.shadow.servers import found_of
from tests.make.toy import NAME, Toy
from tests.programs import PYTHON
from tests.report.test_shadow import HOSTILE, empty, found
from tests.source import ROOT

pytestmark = pytest.mark.slow

LATER = "2099-01-01"


ARMS = ("--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")


@pytest.fixture
def log(project: Toy) -> Path:
    """Write a log, the bounds and an empty register into the project."""
    (project.root / "policy" / "watch.toml").write_text(WATCH.read_text(encoding="utf-8"))
    (project.root / "policy" / "accepted.toml").write_text("")
    folder = project.root / "out" / "shadow"
    live_log.write(project, folder)
    return folder


def accept(harness: Harness, *words: str) -> None:
    base = ("shadow", "accept", "--reason", "known", "--by", "Ada", "--until", LATER)
    assert harness(*base, *words).code == 0


@pytest.mark.usefixtures("log")
def test_questions_are_run_and_then_watched(harness: Harness, tmp_path: Path) -> None:
    settings = tmp_path / "shadow.toml"
    settings.write_text((WATCH.parent / "shadow.toml").read_text(encoding="utf-8"))
    where = ("--out", tmp_path / "log", "--shadow-settings", settings)
    said = harness("shadow", "run", *ARMS, *where, "--count", 50)
    assert said.code == 0
    first, second, last = said.out.splitlines()
    assert first.startswith("50 queries, ")
    assert second == "50 attempts; shed: 0; lost: 0; faults of our own: 0."
    assert last == f"The log: {tmp_path / 'log'}"
    again = harness("shadow", "run", *ARMS, *where, "--titles", "--count", 4, "--rate", 100)
    assert again.out.startswith("4 queries, ")
    assert "54" in harness("shadow", "watch", tmp_path / "log").out


def test_questions_of_a_file_are_run(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"_id": "a", "text": "bolo"}\n')
    settings = tmp_path / "shadow.toml"
    shown = (WATCH.parent / "shadow.toml").read_text(encoding="utf-8")
    settings.write_text(shown.replace("rate = 1000000", "rate = 0"))
    words = ("--out", tmp_path / "log", "--shadow-settings", settings)
    said = harness("shadow", "run", *ARMS, *words, "--queries", tmp_path / "asked.jsonl")
    assert said.code == 3
    assert "1 query" in said.out
    assert "0 attempts" in said.out
    both = ("--titles", "--queries", tmp_path / "asked.jsonl")
    assert "leave one of them out" in harness("shadow", "run", *ARMS, *words, *both).error


def test_what_is_watched_is_printed_once_where_nobody_looks(harness: Harness, log: Path) -> None:
    said = harness("shadow", "watch", log)
    assert said.code == 0
    assert "diverged without being accepted" in said.out.splitlines()[0]
    counts = next(line for line in said.out.splitlines() if line.startswith("83 "))
    assert counts.split()[:2] == ["83", "83"]
    for part in ("overlap: mean Jaccard", "median of candidate / control", "churn candidate",
                 "mix", "shadow_empty", live_log.MENDED):  # fmt: skip
        assert part in said.out


def test_the_exit_code_of_watch(harness: Harness, log: Path, project: Toy) -> None:
    assert harness("shadow", "watch", log, "--once", "--exit-code").code == 1
    for kind in ("reorder", "tie_order", "overlap", "expansion", "truncation", "disjoint",
                 "shadow_empty", "serving_empty"):  # fmt: skip
        accept(harness, "--class", kind)
    said = harness("shadow", "watch", log, "--once", "--exit-code")
    assert said.code == 3
    assert "every divergence is accepted." in said.out.splitlines()[0]
    suppressions = project.root / "policy" / "accepted.toml"
    suppressions.write_text(suppressions.read_text().replace(LATER, "2026-01-01"))
    said = harness("shadow", "watch", log, "--once", "--exit-code")
    assert said.code == 1
    assert "expired" in said.out


def test_what_diverged_is_asked_again(harness: Harness, log: Path) -> None:
    said = harness("shadow", "replay", log, *ARMS)
    assert said.code == 1
    assert re.search(r"(\d+) queries diverged: 1 fixed, (\d+) still diverges, 0 changed", said.out)
    assert "the control itself" not in said.out
    assert live_log.MENDED not in said.out


def test_what_is_accepted_does_not_stand_in_the_way(harness: Harness, log: Path) -> None:
    again = harness("shadow", "replay", log, *ARMS)
    classes = set(re.findall(r"\b(reorder|tie_order|overlap|truncation|expansion)\b", again.out))
    for kind in classes:
        accept(harness, "--class", kind)
    said = harness("shadow", "replay", log, *ARMS)
    assert said.code == 0
    assert said.out.splitlines()[-1] == "0 block the next step."


def test_an_arm_that_changed_is_another_comparison(harness: Harness, log: Path) -> None:
    said = harness("shadow", "replay", log, "--dataset", NAME, "--control", "hash-hybrid",
                   "--candidate", "tantivy")  # fmt: skip
    assert "the control itself shows something else than it did" in said.out


def test_the_same_arm_twice_is_refused(harness: Harness, log: Path) -> None:
    same = ("--dataset", NAME, "--control", "fts5", "--candidate", "fts5")
    assert "compared with itself" in harness("shadow", "replay", log, *same).error


def test_the_report_is_a_page_and_json(harness: Harness, log: Path, project: Toy) -> None:
    out = project.root / "out" / "page"
    said = harness("shadow", "report", log, "--out", out)
    assert said.code == 0
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Side by side" in page
    assert live_log.MENDED in page
    found = json.loads((out / "shadow.json").read_text(encoding="utf-8"))
    assert found["tally"]["attempted"] == found["tally"]["compared"] == 83
    assert found["as_of"] == today().isoformat()
    before = (out / "index.html").read_bytes()
    assert harness("shadow", "report", log, "--out", out).code == 0
    assert (out / "index.html").read_bytes() == before


def test_two_logs_are_read_as_one(harness: Harness, log: Path, project: Toy) -> None:
    other = project.root / "out" / "other"
    live_log.write(project, other, live_log.START + 1)
    said = harness("shadow", "watch", log, other)
    assert any(line.startswith("166 ") for line in said.out.splitlines())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("watch", "nowhere"), r"nowhere: its log is missing .* Give a folder"),
        (("watch", "LOG", "LOG"), "give each log once"),
        (("watch", "LOG", "--bounds", "none.toml"), r"none\.toml: cannot be read"),
        (("watch", "LOG", "--register", "none.toml"), "Write an empty file to accept nothing"),
        (("report", "nowhere", "--out", "x"), "its log is missing"),
        (("replay", "LOG", "--dataset", "none", *ARMS[2:]), "no dataset named 'none'"),
        (("accept", "--class", "ties"), "no class that can be accepted named 'ties'; there is"),
        (("accept", "--class", "error"), "no class that can be accepted named 'error'"),
        (("accept", "--slice", "id"), "name a class or a query"),
        (("accept", "--query", "12"), "query"),
        (("accept", "--class", "reorder", "--until", "2026-01-01"), "has passed"),
    ],
)
def test_what_is_wrong_is_one_line(
    harness: Harness, log: Path, words: tuple[str, ...], says: str
) -> None:
    typed = [str(log) if word == "LOG" else word for word in words]
    if words[0] == "accept":
        typed += ["--reason", "r", "--by", "b"]
        typed += [] if "--until" in words else ["--until", LATER]
    assert re.search(says, harness("shadow", *typed).error)


def test_a_torn_and_a_foreign_line(harness: Harness, log: Path) -> None:
    last = max(log.glob("observations.*"))
    whole = last.read_bytes()
    last.write_bytes(whole + b'{"format":1,"num')
    assert harness("shadow", "watch", log).code == 0
    last.write_bytes(whole + b"{}\n")
    line = whole.count(b"\n") + 1
    assert (
        f"{last.name}:{line}: the line does not start with" in harness("shadow", "watch", log).error
    )


def test_accepting_says_what_and_where(harness: Harness, log: Path, project: Toy) -> None:
    key = json.loads(next(log.glob("observations.*")).read_text().splitlines()[0])["query"]
    said = harness("shadow", "accept", "--query", key, "--reason", "r", "--by", "b",
                   "--until", LATER)  # fmt: skip
    assert f"query {key} is accepted until {LATER}" in said.out
    assert key in (project.root / "policy" / "accepted.toml").read_text()
    again = harness("shadow", "accept", "--query", key, "--reason", "r", "--by", "b",
                    "--until", LATER)  # fmt: skip
    assert (again.code, again.out) == (0, said.out)
    assert (project.root / "policy" / "accepted.toml").read_text().count(key) == 1
    assert log.exists()


READING = ROOT / "examples" / "shadow" / "mcp.toml"


SETTINGS = ROOT / "policy" / "shadow.toml"


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


def tools(to: Connection) -> list[dict[str, Any]]:
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


def test_a_control_that_is_not_there_is_one_line(harness: Harness, tmp_path: Path) -> None:
    words = proxy(
        "http://127.0.0.1:9/mcp", "http://127.0.0.1:9/mcp", tmp_path / "log", "--http", "0"
    )
    assert "Start it, or correct its address" in harness(*words[3:]).error


def test_an_address_of_no_number_is_one_line(
    letters: Project, harness: Harness, tmp_path: Path
) -> None:
    with listening(command("--http", "0"), letters.root) as (url, _):
        words = proxy(url, url, tmp_path / "log", "--http", "0", "--host", "localhost")
        assert "not an address in numbers" in harness(*words[3:]).error


@pytest.mark.parametrize("said", ["", "  ", "program 'x"])
def test_what_is_no_server_is_refused(said: str) -> None:
    with pytest.raises(HarnessError):
        McpServer.of(said)
    assert McpServer.of("https://a/mcp") == McpServer((), "https://a/mcp")
    assert McpServer.of("https://a/mcp", "x&y").url == "https://a/mcp?token=x%26y"
    with pytest.raises(HarnessError, match="--control-token"):
        McpServer.of("https://a/mcp?token=x")
    assert McpServer.of("a 'b c'") == McpServer(("a", "b c"), "")


@pytest.mark.whole("test_over_pipes_with_servers_that_are_programs")
def test_a_candidate_asks_again_what_the_log_holds(letters: Project) -> None:
    reading = read_reading(READING)
    where = McpServer.of(
        f"sh -c {shlex.quote(f'cd {letters.root} && exec {shlex.join(command())}')}"
    )
    with mcp_candidate(where, reading) as searcher:
        params = {"tool": "search_messages", "arguments": '{"project_key": "*", "query": "plan"}'}
        found = searcher.search_with("plan", 20, params)  # type: ignore[attr-defined]
        assert found.served_by == searcher.manifest.fingerprint
        assert len(found.hits) == 20
        with pytest.raises(Unreadable):
            searcher.search("plan", 20)


def test_a_candidate_that_is_not_there_does_not_open() -> None:
    with pytest.raises(IndexNotReady):
        mcp_candidate(McpServer.of("http://127.0.0.1:9/mcp"), read_reading(READING)).__enter__()


@pytest.mark.whole("test_over_http_a_client_sees_the_control_and_the_log_sees_both")
def test_a_control_that_was_restarted_is_connected_to_again(
    letters: Project, tmp_path: Path
) -> None:
    """The call in between fails and is written down; the one after it is answered."""
    asked, token, log = ASKED[0], tmp_path / "token", tmp_path / "log"
    kept = "--token-file", str(token)
    with ExitStack() as open_, ExitStack() as first:
        url, _ = first.enter_context(listening(command("--http", "0", *kept), letters.root))
        port = url.rpartition(":")[2].partition("/")[0]
        url = f"{url}?token={token.read_text('utf-8').strip()}"
        start = proxy(url, url, log, "--http", "0")
        own, _ = open_.enter_context(listening(start, letters.root))
        through = open_.enter_context(connected([], own, BOUNDED_S))
        answer = through.call("search_messages", asked)
        first.close()
        with pytest.raises(MCPError):
            through.call("search_messages", asked)
        open_.enter_context(listening(command("--http", port, *kept), letters.root))
        again = through.call("search_messages", asked)
        found = written(log, 3, within_s=BOUNDED_S)
    assert without_times(again) == without_times(answer)
    statuses = [one.control and one.control.status for one in found.observations]
    assert statuses == [Status.ANSWERED, Status.FAILED, Status.ANSWERED]


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    assert token_for(None, None) == ""
    (tmp_path / "token").write_text("of-the-file\n")
    assert token_for(None, "of-the-environment") == "of-the-environment"
    assert token_for(tmp_path / "token", "of-the-environment") == "of-the-file"
    for wrong in ("", "two words"):
        (tmp_path / "token").write_text(wrong)
        with pytest.raises(BadFile):
            token_for(tmp_path / "token", None)


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


@pytest.mark.skipif(not NGINX, reason="needs apt-get install nginx")
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
        "--reading": str(READING_RECEIVE), "--out": str(tmp_path / "log"),
        "--shadow-settings": str(shipped), **changed,
    }  # fmt: skip
    flat = [word for pair in given.items() for word in pair]
    assert says in harness("shadow", "receive", *flat).error


def test_a_port_that_is_taken_is_reported() -> None:
    with serving() as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(HarnessError, match="name another"), bound("127.0.0.1", port):
            pass


def printed(shown: LogState, width: int, *, top: int = 10) -> str:
    said = StringIO()
    Console(file=said, width=width, highlight=False).print(render_terminal(screen(shown, top=top)))
    return said.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_and_the_worst_comes_first(width: int) -> None:
    lines = printed(found(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("1 alarm raised (duplicates); mean Jaccard of the first hits")
    alarms = next(n for n, line in enumerate(lines) if line.startswith("Alarms"))
    assert "RAISED" in lines[alarms + 2]


def test_control_characters_and_markup_are_not_obeyed() -> None:
    text = printed(found(), 200)
    assert HOSTILE not in text
    assert "<script>alert(1)</script>⟨U+202E⟩" in text


def test_no_query_is_shown_where_none_is_wanted() -> None:
    assert "<script>alert(1)</script>⟨U+202E⟩&amp;\n" not in printed(found(), 200, top=0)


def test_an_empty_log_can_be_shown() -> None:
    assert "nothing yet" in printed(empty(), 100)


def test_the_exit_code_is_that_of_what_is_shown() -> None:
    assert shadow.code(found()) == 1
    assert shadow.code(empty()) == 3


def test_it_can_be_shown_live() -> None:
    said = StringIO()
    console = Console(file=said, width=100, height=30, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        live.update(render_terminal(screen(found(), top=5)), refresh=True)
        live.update(render_terminal(screen(empty(), top=5)), refresh=True)
    assert "nothing yet" in said.getvalue()


OWN = FOLDER / "mail-tantivy"


@pytest.mark.parametrize(
    ("given", "switch", "may_change", "found"),
    [
        ("", KillSwitch.SHADOW, False, OWN),
        ("", None, True, OWN),
        ("", KillSwitch.FTS5, False, None),
        ("", None, False, None),
        ("mine", None, False, Path("mine")),
        ("mine", KillSwitch.SHADOW, False, Path("mine")),
    ],
)
def test_a_log_is_where_a_shadow_can_be(
    tmp_path: Path,
    given: str,
    switch: KillSwitch | None,
    found: Path | None,
    *,
    may_change: bool,
) -> None:
    project = Project(tmp_path)
    arm = arms.load("mail-tantivy", tmp_path)
    named = Path(given) if given else None
    folder = log_folder(project, arm, named, switch, may_change=may_change)
    assert folder == (tmp_path / OWN if found == OWN else found)


def test_the_settings_of_the_program_are_read_where_a_project_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text("datasets: []\n")
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    log = log_of(tmp_path / "log", None, layout)
    assert isinstance(log, ShadowLog)
    assert log.settings.limits.in_flight >= 1
    assert str(tmp_path / "log") in capsys.readouterr().err


def test_a_log_says_whom_users_prefer(project: Toy, harness: Harness) -> None:
    folder = project.root / "clicks"
    click_log.write(folder, "red")
    log = ClickLog(folder)
    alone = ShownList("x", click_log.AT, "red", ("fts5",), ("d00",), (0,))
    failed = ShownList("y", click_log.AT, "red", click_log.ARMS, ("d00",), (0,), "tantivy: down")
    unknown = ShownList("z", click_log.AT, "red", click_log.ARMS, ("d00",), (0,))
    robot = [
        ShownList(f"r{at}", click_log.AT, "red", click_log.ARMS, ("d00",), (0,), user="robot")
        for at in range(61)
    ]
    records: tuple[ShownList | Click, ...] = (alone, failed, unknown, *robot, Click("none", "d00"))
    for record in records:
        log.add(record)
    log.close()
    said = harness("clicks", "report", "clicks")
    assert said.code == 0, said
    assert "40 users saw 40 mixed lists and clicked 40 documents" in said.out
    assert "tantivy against fts5: +1.000 [" in said.out
    assert "(40 to 0, 0 ties): tantivy is preferred" in " ".join(said.out.split())
    assert "1 list was the control's own, because an arm failed" in said.out
    assert "1 user is left out as robots: more than 60 lists within an hour" in said.out
    assert "1 list is left out: its user is unknown" in said.out
    assert "1 list was shown while mixing was off" in said.out
    assert "1 click is on no list or document of the log" in said.out


def test_only_an_operator_switches_mixing_on(project: Toy, harness: Harness) -> None:
    shutil.copy(WATCH.parent / "mail.toml", project.root / "mail.toml")
    move = ("migrate", "interleave", "--reason", "two weeks", "--at", "moved")
    assert "has not begun" in harness(*move, "--arms", "fts5,tantivy").error
    harness("migrate", "begin", "--serving", "fts5", "--at", "moved", "--policy", "mail.toml")
    assert "name two arms or more" in harness(*move, "--arms", "fts5").error
    assert "is not a name of an arm" in harness(*move, "--arms", "fts5,../x").error
    said = harness(*move, "--arms", "fts5,tantivy")
    assert "on: users see lists of fts5, tantivy" in said.out
    status = ("migrate", "status", "--at", "moved", "--policy", "mail.toml", "--dataset", "toy")
    assert "interleaved" in harness(*status).out
    assert "two weeks" in harness(*status).out
    assert "off: users see the list" in harness(*move, "--arms", "none").out
    assert "two weeks" not in harness(*status).out


def test_a_log_that_is_missing_or_cut_is_named(project: Toy, harness: Harness) -> None:
    assert "clicks.jsonl: missing file" in harness("clicks", "report", "clicks").error
    click_log.write(project.root / "clicks", "red")
    with (project.root / "clicks" / "clicks.jsonl").open("a") as out:
        out.write('{"id": "l1", "docu')
    said = harness("clicks", "report", "clicks").error
    assert "clicks.jsonl:81: not a record of clicks" in said


def test_a_log_without_users_has_no_verdict(project: Toy, harness: Harness) -> None:
    click_log.write(project.root / "clicks", "red", user="")
    said = harness("clicks", "report", "clicks")
    assert said.code == 2
    assert "0 users are known" in said.error
    assert "log who sees each list" in said.error
