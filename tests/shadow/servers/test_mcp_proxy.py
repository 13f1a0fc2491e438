"""The proxy over MCP, in this process: which calls are offered, and what of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
from mcp import Client
from mcp.types import CallToolResult, Implementation, ListToolsResult, TextContent

from harness.core.engine import Searcher
from harness.core.run import Status
from harness.shadow.files import read_reading
from harness.shadow.log import Read
from harness.shadow.mcp import McpControl, McpProxy
from tests.make.shadow.comparisons import comparison, drained, here
from tests.shadow.arms import OTHER, Arm
from tests.source import ROOT

READING = read_reading(ROOT / "examples" / "shadow" / "mcp.toml")
FOUND = {"result": [{"id": 3, "raw_score": 2.5}, {"id": 1, "raw_score": 1.5}]}
FAILED = CallToolResult(content=[TextContent(type="text", text="no such box")], is_error=True)


class Control:
    """Says the same whatever it is called for."""

    def __init__(self, answer: CallToolResult) -> None:
        self.server_info = Implementation(name="letters", version="7")
        self.instructions = "ask"
        self._answer = answer

    async def send(self, _: object, kind: type) -> CallToolResult | ListToolsResult:
        return ListToolsResult(tools=[]) if kind is ListToolsResult else self._answer


@contextmanager
def letters() -> Iterator[Searcher]:
    yield Arm(OTHER)


def called(folder: Path, answer: CallToolResult, tool: str) -> tuple[CallToolResult, Read]:
    """Call a tool through the proxy; give what came back, and what was written."""

    async def run(made: Any) -> CallToolResult:  # noqa: ANN401  a comparison
        control = cast("McpControl", Control(answer))
        async with anyio.create_task_group() as later:
            app = McpProxy(control, READING, made, later).app()
            async with Client(app) as client:
                assert client.server_info == Implementation(name="letters", version="7")
                found: CallToolResult = await client.session.call_tool(tool, {"query": "ab"})
        return found

    with comparison(folder, here(letters)) as made:
        found = anyio.run(run, made)
        return found, drained(made)


def test_a_call_is_answered_and_offered(tmp_path: Path) -> None:
    text = TextContent(type="text", text="two letters")
    answer = CallToolResult(content=[text], structured_content=FOUND)
    found, read = called(tmp_path, answer, "search_messages")
    assert (found.content, found.structured_content) == ([text], FOUND)
    (one,) = read.divergences
    assert (one.text, one.k) == ("ab", 20)
    assert [hit.doc_id for hit in one.control.hits] == ["3", "1"]
    assert one.params == {"tool": "search_messages", "arguments": '{"query": "ab"}'}
    assert one.control.served_by == READING.manifest("mcp", "letters 7").fingerprint


def test_a_call_of_another_tool_reaches_the_control_alone(tmp_path: Path) -> None:
    answer = CallToolResult(content=[], structured_content=FOUND)
    found, read = called(tmp_path, answer, "delete_messages")
    assert found.structured_content == FOUND
    assert read.tally.attempted == 0
    assert not read.degradations


def test_a_tool_that_fails_is_passed_on_and_says_why_in_the_log(tmp_path: Path) -> None:
    found, read = called(tmp_path, FAILED, "search_messages")
    assert found.is_error
    assert found.content == FAILED.content
    (one,) = read.divergences
    assert one.control.status is Status.FAILED
    assert "no such box" in one.control.error
