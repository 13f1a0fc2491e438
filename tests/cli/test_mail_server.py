"""``harness mail-server``: the same answers over both transports as in process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import sleep

import httpx
import pytest

from harness.cli.project import Project
from harness.core.errors import IndexNotReady
from harness.core.records import Query
from harness.core.run import Run, Status
from harness.corpus import trec
from harness.corpus.runs import read_run, write_run
from harness.pipeline.index import index
from harness.pipeline.params import ReplayParams
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.replay.drive import observe
from harness.shadow import log as shadow_log
from harness_engines import registry as arms
from harness_engines.mcp_server import digest
from harness_engines.stacks.remote import connected
from tests.cli.conftest import Harness
from tests.make.mail_project import ARM, BOUNDED_S, NAME, QUERIES, arm, command, listening, write
from tests.make.toy import Toy

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
        operator = f"{url.partition('?')[0]}?token={secret.read_text(encoding='utf-8').strip()}"
        with (
            connected([], operator, BOUNDED_S) as to,
            pytest.raises(Exception, match="no tool named 'delete_message'"),
        ):
            to.call("delete_message", {"id": 1})
    assert secret.stat().st_mode & 0o077 == 0


def test_a_stranger_is_not_answered(letters: Project) -> None:
    with listening(command("--http", "0", "--host", "127.0.0.2"), letters.root) as (url, _):
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


def test_an_index_of_other_data_is_not_served(project: Toy, harness: Harness) -> None:
    assert harness("stage", "index", "--dataset", "toy", "--arm", ARM).code == 0
    corpus = project.layout.data / "manifest.json"
    about = json.loads(corpus.read_text())
    corpus.write_text(json.dumps({**about, "corpus_sha256": "0" * 64}))
    assert "other documents" in harness("mail-server", "--dataset", "toy", "--arm", ARM).error
