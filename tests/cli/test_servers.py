"""Servers: of mail, their drill, and live comparisons between two of them."""

import json
import re
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from resource import RLIMIT_FSIZE
from time import sleep
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from harness.agreement import Class
from harness.cli.project import Project
from harness.core.errors import IndexNotReady
from harness.core.run import Status
from harness.core.server import bound
from harness.corpus.runs import write_run
from harness.migrate import ledger
from harness.migrate.ledger import SWITCH_FILE
from harness.pipeline.index import index
from harness.pipeline.params import ReplayParams
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.shadow.log import read_logs
from harness.shadow.record import AGREED
from harness_engines.mcp_server import digest
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from harness_engines.stacks.remote import McpConnection, ToolFailed, connected
from tests.cli.conftest import Harness
from tests.docs.pages import COMMAND, Said, Shell
from tests.make.decisions import POLICY, day, decision, evidence
from tests.make.mail_project import ARM, BOUNDED_S, NAME, QUERIES, arm, command, listening, write
from tests.make.shadow_log import written
from tests.make.shadow_servers import Server, answered, found_of
from tests.make.shadow_servers import listening as serving
from tests.make.toy import Toy
from tests.programs import PYTHON
from tests.source import ROOT

pytestmark = pytest.mark.slow
FTS5 = "mail-fts5"
PARAMS = ReplayParams(k=15, time_limit_s=BOUNDED_S, seed=3)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make a project with mail, indexed and replayed in process."""
    project = write(tmp_path_factory.mktemp("letters"))
    layout = project.layout(NAME)
    for one in (ARM, FTS5):
        index(layout, one, project.cache)
    replay(layout, ARM, project.cache, PARAMS)
    return project


def test_over_http_the_run_files_are_the_same_bytes(letters: Project, tmp_path: Path) -> None:
    layout = letters.layout(NAME)
    with listening(command("--http", "0"), letters.root) as (url, _):
        remote = arm(tmp_path, "over-http", transport="http", url=url)
        index(layout, remote, letters.cache)
        run = replay(layout, remote, letters.cache, PARAMS)
    assert run.count(Status.ANSWERED) == len(QUERIES)
    assert len(run.docs) > 100
    theirs, own = (read_manifest(layout, one).fingerprint for one in (run.arm, ARM))
    served_by = tuple(own if who == theirs else who for who in run.served_by)
    write_run(replace(run, arm=ARM, served_by=served_by), tmp_path / "run.parquet")
    assert (tmp_path / "run.parquet").read_bytes() == layout.run(ARM).read_bytes()


def called(url: str, token: str) -> set[str]:
    """Search for a word as whoever has the token; give the projects of what is found."""
    asked = {"project_key": "*", "query": "review plan", "limit": 100}
    with connected([], f"{url.partition('?')[0]}?token={token}", BOUNDED_S) as to:
        found = to.call("search_messages", asked)
    return {str(row["project_id"]) for row in found["result"]}


def test_each_token_sees_what_its_viewer_may(letters: Project, tmp_path: Path) -> None:
    lines = (
        f'[viewers.{agent}]\nagent = "{agent}"\nprojects = ["{slug}"]\n'
        f'token_sha256 = "{digest(agent)}"\n'
        for agent, slug in (("nobody-1", "project-1"), ("nobody-2", "project-2"))
    )
    viewers = tmp_path / "viewers.toml"
    viewers.write_text("".join(lines), encoding="utf-8")
    secret = tmp_path / "token"
    more = ("--http", "0", "--viewers", str(viewers), "--token-file", str(secret))
    with listening(command(*more), letters.root) as (url, _):
        operator = secret.read_text(encoding="utf-8").strip()
        for token, projects in (("nobody-1", "1"), ("nobody-2", "2"), (operator, "123")):
            assert called(url, token) == {*projects}, token
        with pytest.raises(IndexNotReady, match="no MCP server answers"):
            called(url, "a guess")
        with (
            connected([], f"{url.partition('?')[0]}?token={operator}", BOUNDED_S) as to,
            pytest.raises(Exception, match="no tool named 'delete_message'"),
        ):
            to.call("delete_message", {"id": 1})
    assert secret.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--viewer", "ann"), "--viewers"),
        (("--viewers", "absent.toml"), "absent.toml"),
        (("--viewers", "VIEWERS", "--http", "0", "--no-token"), "--no-token"),
        (("--viewers", "VIEWERS"), "viewer"),
        (("--http", "0", "--token-file", "VIEWERS"), "no token"),
        (("--host", "192.168.0.1", "--http", "0"), "loopback"),
        (("--arm", "fts5"), "only arms of the stack mail"),
    ],
)
def test_what_cannot_be_served_is_refused(
    harness: Harness, tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    viewers = tmp_path / "viewers.toml"
    viewers.write_text(f'[viewers.ann]\nagent = "Ann"\ntoken_sha256 = "{digest("x")}"\n')
    given = (str(viewers) if one == "VIEWERS" else one for one in more)
    assert says in harness("mail-server", "--dataset", "toy", "--arm", ARM, *given).error


def test_an_index_of_other_data_is_not_served(project: Toy, harness: Harness) -> None:
    assert harness("stage", "index", "--dataset", "toy", "--arm", ARM).code == 0
    corpus = project.layout.data / "manifest.json"
    about = json.loads(corpus.read_text())
    corpus.write_text(json.dumps({**about, "corpus_sha256": "0" * 64}))
    assert "other documents" in harness("mail-server", "--dataset", "toy", "--arm", ARM).error


def test_the_way_back_is_proven_in_this_process_and_at_a_running_server(
    letters: Project, tmp_path: Path
) -> None:
    """Tantivy is taken at once, so that the step before it is FTS5 alone."""
    ledger.begin(tmp_path, POLICY, "fts5", now=day(1), by="a test")
    alone = replace(POLICY, steps=tuple(one for one in POLICY.steps if one.name == "tantivy"))
    found = evidence(decision(1))
    ledger.advance(tmp_path, alone, found, now=day(1), by="a test", reason="a test")
    switch = tmp_path / SWITCH_FILE

    def drilled(*more: str) -> Said:
        typed = ["harness", "migrate", "drill", "--dataset", NAME, "--arm", ARM, "--at", tmp_path]
        return Shell(letters.root).type(f"{COMMAND} {shlex.join(map(str, [*typed, *more]))}")

    said = drilled()
    assert said.code == 0, said
    layout = letters.layout(NAME)
    own, old = (read_manifest(layout, one).fingerprint[:12] for one in (ARM, FTS5))
    assert f"fts5 by fts5 {old} and tantivy by tantivy {own}" in said.text
    assert value_in(switch) == "tantivy"
    assert ledger.read(tmp_path).state.taken[-1].drilled_at is not None
    words = command("--http", "0", "--switch-file", str(switch))
    with listening(words, letters.root) as (url, _):
        said = drilled("--url", url, "--questions", "5")
    assert said.code == 0, said
    assert "PROVEN 5 queries" in said.text


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


def shadow(kind: str, control: str, candidate: str, reading: Path, out: Path) -> list[str]:
    """Words that start a live comparison of two servers."""
    servers = ("--control", control, "--candidate", candidate)
    return [*PYTHON, "shadow", kind, *servers, "--reading", str(reading), "--out", str(out)]


def proxy(control: str, candidate: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words that start it; tokens that addresses end in are put into the environment."""
    servers = []
    for name, url in (("CONTROL", control), ("CANDIDATE", candidate)):
        server, _, token = url.partition("?token=")
        servers.append(server)
        monkeypatch.setenv(f"HARNESS_{name}_TOKEN", token)
    start = shadow("mcp", servers[0], servers[1], READING, out)
    return [*start, "--shadow-settings", str(SETTINGS), "--http", "0"]


def without_times(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "explain"}


def tools(to: McpConnection) -> list[dict[str, Any]]:
    listed = to.portal.call(to.client.session.list_tools)
    return [tool.model_dump() for tool in listed.tools]


def test_over_http_a_client_sees_the_control_and_the_log_sees_both(
    letters: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fts5, tantivy = (
        command("--http", "0", "--search-engine", engine) for engine in ("fts5", "tantivy")
    )
    with (
        listening(fts5, letters.root) as (control, _),
        listening(tantivy, letters.root) as (candidate, _),
        listening(proxy(control, candidate, tmp_path, monkeypatch), letters.root) as (url, _),
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


READING_RECEIVE = ROOT / "examples" / "shadow" / "http.toml"
PAGE = ROOT / "docs" / "shadow.md"
CONFIGURATION = ROOT / "deploy" / "shadow" / "nginx.conf"
WORDS = ("apple", "bread", "cheese", "nothing")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


def another_api(request: httpx.Request) -> httpx.Response:
    """Answer as the candidate of docs/shadow.md."""
    told = request.url.path, request.headers["Authorization"]
    assert told == ("/find", "Bearer of-the-candidate")
    asked = json.loads(request.content)
    found = found_of(asked["words"], asked["limit"])["hits"]
    hits = [{"key": one["_id"], "points": one["_score"]} for one in found["hits"]]  # type: ignore[index]
    return answered({"found": hits})


def test_mirrored_queries_are_in_the_log_and_a_stop_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are translated for a candidate with another API, by the file of docs/shadow.md."""
    (shown,) = re.findall(r"```toml\n(summary.*?)```", PAGE.read_text(), re.DOTALL)
    file, log = tmp_path / "candidate.toml", tmp_path / "log"
    file.write_text(shown)
    monkeypatch.setenv("CANDIDATE_TOKEN", "of-the-candidate")
    served = Server()
    with serving(served) as control, serving(another_api) as candidate:
        start = shadow("receive", control, candidate, READING_RECEIVE, log)
        start += ["--candidate-reading", str(file)]
        with listening(start, ROOT) as (receiver, process), httpx.Client(trust_env=False) as client:
            for word in WORDS:
                url = f"{receiver}/search?q={word}&size=2"
                assert client.get(url).status_code == 204
            client.delete(f"{receiver}/search?q=apple")
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=BOUNDED_S)
            assert process.stdout is not None
            said = process.stdout.read()
    found = written(log, len(WORDS), within_s=BOUNDED_S)
    outcomes = sorted(one.outcome for one in found.observations)
    assert outcomes == [Class.BOTH_EMPTY, *[Class.EXACT] * 3]
    assert not found.degradations
    assert "4 attempts; lost: 0" in said
    assert "dropped: 1 (not a search)" in said
    assert not any("authorization" in one.headers for one in served.asked)
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
    words = partial(shadow, "receive", reading=READING_RECEIVE, out=log)
    with bound("127.0.0.1", 0) as (_, url):
        port = int(url.rpartition(":")[2])
    with (
        serving(Server()) as control,
        serving(Server()) as candidate,
        listening(words(control, candidate), ROOT, said) as (receiver, process),
        httpx.Client(trust_env=False) as client,
        subprocess.Popen(configured(place, port, control, receiver)) as front,
    ):
        direct = [client.get(f"{control}/search?q={word}").content for word in WORDS]
        asks = partial(reached, client, f"http://127.0.0.1:{port}/search?q=")
        yield Site(asks, direct, process, log, said)
        front.terminate()


@pytest.mark.parametrize("how", ["full", "deleted"])
def test_behind_nginx_users_get_the_control_whatever_the_receiver_does(
    site: Site, harness: Harness, how: str
) -> None:
    """The disk is full where no file of the receiver may grow, and is freed again."""
    answers = [site.ask(word).content for word in WORDS]
    found = written(site.log, len(WORDS), within_s=BOUNDED_S)
    assert {one.outcome for one in found.observations} == {Class.EXACT, Class.BOTH_EMPTY}
    assert all(one.client for one in found.observations)
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
    alone = site.ask(WORDS[0])
    assert (alone.status_code, alone.content) == (200, site.direct[0])
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
    for _ in range(100 * BOUNDED_S):
        if true():
            return
        sleep(0.01)
    pytest.fail("it is still not so")


def reached(client: httpx.Client, url: str, word: str) -> httpx.Response:
    """Ask until the server is there."""
    for _ in range(200):
        try:
            return client.get(f"{url}{word}")
        except httpx.ConnectError:
            continue
    raise AssertionError(f"{url} cannot be reached")
