"""``harness mail-server``: the same answers over both transports as in process."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, PIPE
from time import sleep

import httpx
import pytest

from harness.cli.project import Project
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Query
from harness.core.run import Run, Status
from harness.corpus import trec
from harness.corpus.runs import read_run, write_run
from harness.pipeline.index import index
from harness.pipeline.mail import mail_service
from harness.pipeline.params import ReplayParams
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.replay.drive import observe
from harness.shadow import log as shadow_log
from harness_engines import registry as arms
from harness_engines.mcp_server import digest
from harness_engines.stacks.remote.mcp import connected
from tests.cli.conftest import Harness
from tests.make.mail_project import ARM, BOUNDED_S, NAME, QUERIES, arm, command, listening, write
from tests.make.toy import Toy
from tests.programs import Program

pytestmark = pytest.mark.slow
PARAMS = ReplayParams(k=15, time_limit_s=BOUNDED_S, seed=3)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make a project with mail, indexed and replayed in process."""
    project = write(tmp_path_factory.mktemp("letters"))
    layout = project.layout(NAME)
    index(layout, ARM, project.cache)
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


@pytest.mark.whole("test_over_http_the_run_files_are_the_same_bytes")
def test_over_stdio_the_run_files_are_the_same_bytes(
    letters: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(letters.root)
    run = rerun(letters, arm(tmp_path, "over-stdio", command=command(), page_size=1000))
    assert as_files(letters, run, tmp_path) == in_process(letters, tmp_path)


def test_a_server_that_is_gone_fails_the_queries(letters: Project, tmp_path: Path) -> None:
    with listening(command("--http", "0"), letters.root) as (url, process):
        path = arm(tmp_path, "gone", transport="http", url=url)
        layout = letters.layout(NAME)
        index(layout, path, letters.cache)
        with arms.load(path, letters.cache).engine.open(layout.index("gone")) as searcher:
            query = Query("q", "review")
            assert observe(searcher, query, 5, 10**12).row.status is Status.ANSWERED
            process.kill()
            process.wait(timeout=BOUNDED_S)
            for _ in range(2):
                row = observe(searcher, query, 5, 10**12).row
                assert (row.status, row.hits) == (Status.FAILED, ())
        with pytest.raises(IndexNotReady, match="no MCP server answers"):
            replay(layout, path, letters.cache, PARAMS)


@pytest.mark.whole("test_the_kill_switch_of_the_environment_outweighs_the_arm")
def test_another_engine_than_the_arm_names_is_not_the_arm(letters: Project, tmp_path: Path) -> None:
    with listening(command("--http", "0"), letters.root) as (url, _):
        path = arm(tmp_path, "other", transport="http", url=url, engine="fts5")
        with pytest.raises(InvalidArm, match="tantivy answered"):
            rerun(letters, path)


def test_the_kill_switch_of_the_environment_outweighs_the_arm(
    letters: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_ENGINE", "fts5")
    with listening(command("--http", "0"), letters.root) as (url, _):
        run = rerun(letters, arm(tmp_path, "killed", transport="http", url=url, engine="fts5"))
    assert run.count(Status.ANSWERED) == len(QUERIES)
    assert set(run.served_by) == {read_manifest(letters.layout(NAME), "killed").fingerprint}


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
    assert secret.stat().st_mode & 0o077 == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_a_stranger_is_not_answered(letters: Project, host: str) -> None:
    with listening(command("--http", "0", "--host", host), letters.root) as (url, _):
        named = {"host": "evil.example"}
        assert httpx.post(url, headers=named, json={}).status_code == 421
        assert (
            httpx.post(url, headers={"origin": "http://evil.example"}, json={}).status_code == 403
        )
        assert httpx.post(url.partition("?")[0], json={}).status_code == 401
        assert httpx.post(url, content=b"x" * 300_000).status_code == 413


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--viewer", "ann"), "--viewers"),
        (("--viewers", "absent.toml"), "absent.toml"),
        (("--viewers", "VIEWERS", "--http", "0", "--no-token"), "--no-token"),
        (("--viewers", "VIEWERS"), "viewer"),
        (("--http", "0", "--token-file", "VIEWERS"), "no token"),
    ],
)
def test_what_would_let_anyone_in_is_refused(
    harness: Harness, tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    viewers = tmp_path / "viewers.toml"
    viewers.write_text(f'[viewers.ann]\nagent = "Ann"\ntoken_sha256 = "{digest("x")}"\n')
    given = (str(viewers) if one == "VIEWERS" else one for one in more)
    assert says in harness("mail-server", "--dataset", "toy", "--arm", ARM, *given).error


def test_a_shadow_is_logged_where_no_folder_is_named(letters: Project) -> None:
    log = letters.root / "out" / "shadow-log" / ARM
    with listening(command("--http", "0", "--search-engine", "shadow"), letters.root) as (url, _):
        secret = url.partition("?token=")[2]
        called(url, secret)
        for _ in range(BOUNDED_S * 20):
            if log.is_dir() and shadow_log.read_logs(log).observations:
                break
            sleep(0.05)
    (one,) = shadow_log.read_logs(log).observations
    assert one.control
    assert one.control.hits
    assert one.candidate
    assert one.candidate.hits


def test_an_unknown_kill_switch_is_refused_at_the_start(letters: Project) -> None:
    words = command("--search-engine", "lucene")
    with Program(words, cwd=letters.root, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as process:
        said, error = process.communicate(timeout=BOUNDED_S)
    assert (process.returncode, said) == (2, "")
    assert "SEARCH_ENGINE" in error
    assert "shadow" in error


def test_on_standard_output_there_is_nothing_but_the_protocol(letters: Project) -> None:
    """Building the index, notes and logs go to the error stream."""
    ask = {"project_key": "*", "query": "review", "mode": "hybrid", "explain": True}
    info = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search_messages", "arguments": ask},
        },
    ]
    shutil.rmtree(letters.layout(NAME).index(ARM))
    with Program(command(), cwd=letters.root, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in messages:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            said = [json.loads(process.stdout.readline()) for _ in range(2)]
            rest, log = process.communicate(timeout=BOUNDED_S)
        finally:
            process.kill()
    assert [one["id"] for one in said] == [1, 2]
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    answer = said[1]["result"]["structuredContent"]
    assert answer["result"]
    assert answer["diagnostics"]["signals"] == ["mode_downgraded", "engine_fallback"]
    assert "indexing mail-tantivy" in log


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--host", "192.168.0.1", "--http", "0"), "loopback"),
        (("--host", "example.org"), "loopback"),
    ],
)
def test_no_address_but_loopback_is_served(
    harness: Harness, more: tuple[str, ...], says: str
) -> None:
    assert says in harness("mail-server", "--dataset", "toy", "--arm", ARM, *more).error


def test_only_message_search_is_served(harness: Harness) -> None:
    said = harness("mail-server", "--dataset", "toy", "--arm", "fts5")
    assert "only arms of the stack mail" in said.error


def test_an_index_of_other_data_is_not_served(project: Toy, harness: Harness) -> None:
    assert harness("stage", "index", "--dataset", "toy", "--arm", ARM).code == 0
    corpus = project.layout.data / "manifest.json"
    about = json.loads(corpus.read_text())
    corpus.write_text(json.dumps({**about, "corpus_sha256": "0" * 64}))
    assert "other documents" in harness("mail-server", "--dataset", "toy", "--arm", ARM).error


@pytest.mark.parametrize("budget", ["nan", "inf"])
def test_a_budget_is_a_number(harness: Harness, budget: str) -> None:
    given = ("--dataset", "toy", "--arm", ARM, "--budget-ms", budget)
    said = harness("mail-server", *given)
    assert said.code == 2
    assert "--budget-ms" in said.err


@pytest.mark.parametrize(
    ("budget", "kept"), [(250.0, 250.0), (60_000.0, 30_000.0), (0.0, 30_000.0)]
)
def test_a_served_query_has_a_deadline(letters: Project, budget: float, kept: float) -> None:
    layout = letters.layout(NAME)
    index(layout, ARM, letters.cache)
    with mail_service(layout, ARM, letters.cache, lambda: None, budget_ms=budget) as service:
        assert service.base.service.budget_ms == kept
