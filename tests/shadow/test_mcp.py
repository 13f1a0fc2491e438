"""The proxy before an MCP server, and its connection to the control."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast
from unittest.mock import Mock

import anyio
import pytest
from mcp import Client, MCPError, types

from harness.shadow.comparison import LiveComparison
from harness.shadow.log import LogContents
from harness.shadow.mcp import McpControl, McpProxy
from harness.shadow.settings import Backend, read_reading
from tests.make.shadow_log import comparison, drained, here
from tests.shadow.arms import OTHER, Arm, given
from tests.source import ROOT

READING = read_reading(ROOT / "examples" / "shadow" / "mcp.toml")
FOUND = {"result": [{"id": 3, "raw_score": 2.5}, {"id": 1, "raw_score": 1.5}]}


LETTERS = types.Implementation(name="letters", version="7")


def called(
    folder: Path, answer: types.CallToolResult, tool: str
) -> tuple[types.CallToolResult, LogContents]:
    """Call a tool through the proxy of a control that answers so; return that, and the log."""

    async def send(_: object, kind: type) -> types.CallToolResult | types.ListToolsResult:
        return types.ListToolsResult(tools=[]) if kind is types.ListToolsResult else answer

    control = Mock(McpControl, server_info=LETTERS, instructions="ask", send=send)

    async def run(made: LiveComparison) -> types.CallToolResult:
        async with anyio.create_task_group() as later:
            app = McpProxy(control, READING, made, later).app()
            async with Client(app) as client:
                assert client.server_info == LETTERS
                found: types.CallToolResult = await client.session.call_tool(tool, {"query": "ab"})
        return found

    with comparison(folder, here(given(Arm(OTHER)))) as made:
        found = anyio.run(run, made)
        return found, drained(made)


def test_a_call_is_answered_and_offered(tmp_path: Path) -> None:
    text = types.TextContent(type="text", text="two letters")
    answer = types.CallToolResult(content=[text], structured_content=FOUND)
    found, read = called(tmp_path, answer, "search_messages")
    assert (found.content, found.structured_content) == ([text], FOUND)
    (one,) = read.divergences
    assert (one.text, one.k) == ("ab", 20)
    assert [hit.doc_id for hit in one.control.hits] == ["3", "1"]
    assert one.params == {"tool": "search_messages", "arguments": '{"query": "ab"}'}
    assert one.control.served_by == Backend(READING, "mcp", "letters 7").manifest.fingerprint


def test_a_call_of_another_tool_reaches_the_control_alone(tmp_path: Path) -> None:
    answer = types.CallToolResult(content=[], structured_content=FOUND)
    found, read = called(tmp_path, answer, "delete_messages")
    assert found.structured_content == FOUND
    assert read.tally.attempted == 0
    assert not read.degradations


class Line:
    """A connection that can be cut, or cannot be made."""

    def __init__(self, number: int, *, refuses: bool = False) -> None:
        self.server_info = types.Implementation(name="letters", version=str(number))
        self.instructions = None
        self.refuses = refuses
        self.cut: Exception | None = None

    @property
    def session(self) -> Self:
        return self

    async def send_request(self, request: str, _: type) -> str:
        if self.cut:
            raise self.cut
        return f"{request} {self.server_info.version}"

    async def __aenter__(self) -> Self:
        if self.refuses:
            raise ConnectionRefusedError
        return self

    async def __aexit__(self, *_: object) -> None: ...


def behind(lines: list[Line], use: Callable[[McpControl], Any]) -> Any:  # noqa: ANN401
    waiting = iter(lines)

    async def run() -> Any:  # noqa: ANN401
        control = McpControl(lambda: cast("Client", next(waiting)), patience_s=5)
        async with anyio.create_task_group() as group:
            await group.start(control.run)
            found = await use(control)
            group.cancel_scope.cancel()
        return found

    return anyio.run(run)


@pytest.mark.parametrize(
    "cut",
    [MCPError(types.CONNECTION_CLOSED, "closed"), anyio.BrokenResourceError()],
    ids=["told", "raised"],
)
def test_after_a_break_the_next_request_is_answered(cut: Exception) -> None:
    lines = [Line(1), Line(2, refuses=True), Line(3)]

    async def use(control: McpControl) -> list[str]:
        said = [await control.send("a", str)]
        lines[0].cut = cut
        with pytest.raises(MCPError):
            await control.send("b", str)
        said.append(await control.send("c", str))
        assert control.server_info is not None
        return [*said, control.server_info.version]

    assert behind(lines, use) == ["a 1", "c 3", "3"]


def test_an_error_of_the_protocol_breaks_nothing() -> None:
    line = Line(1)

    async def use(control: McpControl) -> int:
        line.cut = MCPError(-32602, "no such tool")
        with pytest.raises(MCPError, match="no such tool"):
            await control.send("a", str)
        line.cut = None
        await control.send("b", str)
        return control.connections

    assert behind([line], use) == 1
