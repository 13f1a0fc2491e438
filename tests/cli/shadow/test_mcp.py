"""``harness shadow mcp``: shadow_mcp and mcp_proxy between a client and two servers of letters."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from engines.stacks.remote.mcp import Connection, ToolFailed, connected
from harness.agreement import Class
from harness.cli.project import Project
from harness.core.errors import BadFile, HarnessError, IndexNotReady
from harness.core.run import Status
from harness.pipeline.index import index
from harness.shadow.files import read_reading
from harness.shadow.mcp import McpServer, mcp_candidate, token_for
from harness.shadow.record import AGREED
from harness.shadow.server import Unreadable
from tests.cli.conftest import Harness
from tests.make.mail.project import ARM, BOUNDED_S, NAME, command, listening, write
from tests.make.shadow.live_log import written
from tests.programs import PYTHON
from tests.source import ROOT

pytestmark = pytest.mark.slow
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
    index(project.layout(NAME), ARM, project.cache)
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
