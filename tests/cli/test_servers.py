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
from harness.core.errors import HarnessError, IndexNotReady
from harness.core.run import Run, Status
from harness.core.server import bound
from harness.corpus import trec
from harness.corpus.runs import read_run, write_run
from harness.migrate import ledger
from harness.migrate.ledger import SWITCH_FILE
from harness.pipeline.index import index
from harness.pipeline.params import ReplayParams
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.shadow.log import read_logs
from harness.shadow.mcp import McpServer
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


def rerun(project: Project, path: str) -> Run:
    """Index and replay an arm."""
    layout = project.layout(NAME)
    index(layout, path, project.cache)
    return replay(layout, path, project.cache, PARAMS)


def as_files(project: Project, run: Run, to: Path) -> tuple[bytes, bytes]:
    """Write a run as if the arm in process had made it, its fingerprint in place of the other."""
    layout = project.layout(NAME)
    own = read_manifest(layout, run.arm).fingerprint
    theirs = read_manifest(layout, ARM).fingerprint
    renamed = replace(
        run, arm=ARM, served_by=tuple(theirs if who == own else who for who in run.served_by)
    )
    write_run(renamed, to / "run.parquet")
    trec.write_run(to / "run.trec", renamed)
    return (to / "run.parquet").read_bytes(), (to / "run.trec").read_bytes()


def in_process(project: Project, to: Path) -> tuple[bytes, bytes]:
    path = project.layout(NAME).run(ARM)
    trec.write_run(to / "own.trec", read_run(path))
    return path.read_bytes(), (to / "own.trec").read_bytes()


def test_over_http_the_run_files_are_the_same_bytes(letters: Project, tmp_path: Path) -> None:
    with listening(command("--http", "0"), letters.root) as (url, _):
        run = rerun(letters, arm(tmp_path, "over-http", transport="http", url=url))
    assert run.count(Status.ANSWERED) == len(QUERIES)
    assert len(run.docs) > 100
    assert as_files(letters, run, tmp_path) == in_process(letters, tmp_path)


def called(url: str, token: str) -> set[str]:
    """Search for a word as whoever has the token; give the senders and the projects found."""
    asked = {"project_key": "*", "query": "review plan", "limit": 100}
    with connected([], f"{url.partition('?')[0]}?token={token}", BOUNDED_S) as to:
        found = to.call("search_messages", asked)
    return {f"{row['from']} {row['project_id']}" for row in found["result"]}


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
        first, second = (called(url, name) for name in ("nobody-1", "nobody-2"))
        assert {one[-1] for one in first} == {"1"}
        assert {one[-1] for one in second} == {"2"}
        everything = called(url, secret.read_text(encoding="utf-8").strip())
        assert {one[-1] for one in everything} == {"1", "2", "3"}
        with pytest.raises(IndexNotReady, match="no MCP server answers"):
            called(url, "a guess")
        operator = f"{url.partition('?')[0]}?token={secret.read_text(encoding='utf-8').strip()}"
        with (
            connected([], operator, BOUNDED_S) as to,
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


FTS5 = "mail-fts5"


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """Take Tantivy at once, so that the step before it is FTS5 alone."""
    folder = tmp_path / "migration"
    ledger.begin(folder, POLICY, "fts5", now=day(1), by="a test")
    steps = [step for step in POLICY.steps if step.name == "tantivy"]
    alone = replace(POLICY, steps=tuple(steps))
    found = evidence(decision(1))
    ledger.advance(folder, alone, found, now=day(1), by="a test", reason="a test")
    assert value_in(folder / SWITCH_FILE) == "tantivy"
    return folder


def drilled(letters: Project, *words: str | Path) -> Said:
    typed = ["harness", "migrate", "drill", "--dataset", NAME, "--arm", ARM, *map(str, words)]
    return Shell(letters.root).type(f"{COMMAND} {shlex.join(typed)}")


def test_it_is_proven_in_this_process(letters: Project, taken: Path) -> None:
    said = drilled(letters, "--at", taken)
    assert said.code == 0, said
    own = read_manifest(letters.layout(NAME), ARM).fingerprint[:12]
    old = read_manifest(letters.layout(NAME), FTS5).fingerprint[:12]
    assert f"fts5 by fts5 {old} and tantivy by tantivy {own}" in said.text
    assert value_in(taken / SWITCH_FILE) == "tantivy"
    assert ledger.read(taken).state.taken[-1].drilled_at is not None


def test_a_running_server_follows_the_file_without_a_restart(letters: Project, taken: Path) -> None:
    words = command("--http", "0", "--switch-file", str(taken / SWITCH_FILE))
    with listening(words, letters.root) as (url, _):
        said = drilled(letters, "--at", taken, "--url", url, "--questions", "5")
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


def proxy(
    control: str, candidate: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str
) -> list[str]:
    """Write the command; tokens that addresses end in are put into the environment."""
    servers = []
    for name, said in (("CONTROL", control), ("CANDIDATE", candidate)):
        server, _, token = said.partition("?token=")
        servers.append(server)
        monkeypatch.setenv(f"HARNESS_{name}_TOKEN", token)
    return [
        *PYTHON, "shadow", "mcp", "--control", servers[0],
        "--candidate", servers[1], "--reading", str(READING), "--out", str(folder),
        "--shadow-settings", str(SETTINGS), *more,
    ]  # fmt: skip


def without_times(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "explain"}


def tools(to: McpConnection) -> list[dict[str, Any]]:
    listed = to.portal.call(to.client.session.list_tools)
    return [tool.model_dump() for tool in listed.tools]


def test_over_http_a_client_sees_the_control_and_the_log_sees_both(
    letters: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fts5 = command("--http", "0", "--search-engine", "fts5")
    tantivy = command("--http", "0", "--search-engine", "tantivy")
    with (
        listening(fts5, letters.root) as (control, _),
        listening(tantivy, letters.root) as (candidate, _),
        listening(
            proxy(control, candidate, tmp_path, monkeypatch, "--http", "0"), letters.root
        ) as (url, _),
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


def test_a_token_in_an_address_is_refused() -> None:
    with pytest.raises(HarnessError, match="HARNESS_CONTROL_TOKEN"):
        McpServer.of("https://a/mcp?token=x")


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


def words(control: str, candidate: str, folder: Path) -> list[str]:
    return [
        *PYTHON, "shadow", "receive", "--control", control,
        "--candidate", candidate, "--reading", str(READING_RECEIVE), "--out", str(folder),
    ]  # fmt: skip


def test_mirrored_queries_are_in_the_log_and_a_stop_loses_none(tmp_path: Path) -> None:
    with serving(Server()) as control, serving(Server()) as candidate:
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
    with serving(Server()) as control, serving(another_api) as candidate:
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
        serving(Server()) as control,
        serving(Server()) as candidate,
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
