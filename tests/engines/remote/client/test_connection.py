"""``remote.client.connection``: servers that fail, hang and die, and no wait without an end."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.stacks.remote.mcp import Connection, ToolFailed, connected
from harness.core.errors import IndexNotReady

pytestmark = pytest.mark.slow
SERVER = """\
import os
import time

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

app = MCPServer("odd", version="7", log_level="ERROR")


@app.tool()
def act(what: str) -> dict[str, str]:
    if what == "refuse":
        raise ToolError("INVALID_ARGUMENT: not that")
    if what == "crash":
        raise RuntimeError("secret")
    if what == "hang":
        time.sleep(600)
    if what == "die":
        os._exit(3)
    return {"did": what}


@app.tool(structured_output=False)
def talk() -> str:
    return "only words"


app.run("stdio")
"""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("odd") / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return [sys.executable, str(path)]


@pytest.fixture(scope="module")
def odd(command: list[str]) -> Iterator[Connection]:
    with connected(command, "", PATIENCE_S) as to:
        yield to


def test_a_call_gives_what_the_tool_gave(odd: Connection) -> None:
    assert odd.server == "odd 7"
    assert odd.call("act", {"what": "sing"}) == {"did": "sing"}


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("act", {"what": "refuse"}, "INVALID_ARGUMENT: not that"),
        ("act", {"what": "crash"}, "Error executing tool act"),
        ("act", {}, "what"),
        ("talk", {}, "no structured content"),
        ("absent", {}, "absent"),
    ],
)
def test_a_tool_that_failed_is_no_answer(
    odd: Connection, tool: str, arguments: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        odd.call(tool, arguments)
    assert odd.call("act", {"what": "go on"}) == {"did": "go on"}


def test_a_failed_tool_is_told_from_a_lost_connection(odd: Connection) -> None:
    with pytest.raises(ToolFailed):
        odd.call("act", {"what": "refuse"})


def test_half_a_surrogate_pair_is_not_sent(odd: Connection) -> None:
    with pytest.raises(UnicodeEncodeError, match="surrogates"):
        odd.call("act", {"what": "\ud800"})
    assert odd.call("act", {"what": "go on"}) == {"did": "go on"}


def test_a_server_that_hangs_is_left(command: list[str]) -> None:
    with connected(command, "", PATIENCE_S) as to:
        bounded = Connection(to.portal, to.client, 0.2, to.server)
        with pytest.raises(TimeoutError):
            bounded.call("act", {"what": "hang"})


def test_a_server_that_dies_fails_this_call_and_all_after_it(command: list[str]) -> None:
    with connected(command, "", PATIENCE_S) as to:
        for what in ("die", "sing"):
            with pytest.raises(Exception, match=r"(?i)clos"):
                to.call("act", {"what": what})


@pytest.mark.parametrize(
    "words",
    [
        ["no-such-program-anywhere"],
        [sys.executable, "-c", "raise SystemExit(3)"],
        [sys.executable, "-c", "print('not the protocol')"],
    ],
)
def test_nobody_to_speak_to_is_an_arm_that_did_not_run(words: list[str]) -> None:
    with pytest.raises(IndexNotReady, match="no MCP server answers"), connected(words, "", 30.0):
        pytest.fail("connected")


def test_a_program_that_says_nothing_is_not_waited_for() -> None:
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(IndexNotReady, match="no MCP server answers"), connected(words, "", 0.5):
        pytest.fail("connected")


def test_an_address_that_refuses_is_an_arm_that_did_not_run() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
        with pytest.raises(IndexNotReady, match="no MCP server answers"), connected([], url, 30.0):
            pytest.fail("connected")


def test_what_fails_while_connected_is_passed_on(command: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), connected(command, "", PATIENCE_S):
        raise ZeroDivisionError


def test_a_temporary_error_stream_is_not_needed(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tmp_path.is_dir()
    monkeypatch.setattr(sys, "__stderr__", None)
    with connected(command, "", PATIENCE_S) as to:
        assert to.call("act", {"what": "sing"}) == {"did": "sing"}
