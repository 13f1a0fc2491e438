"""The proxy before an MCP server, and its connection to the control."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    Implementation,
    ListToolsResult,
    TextContent,
)

from harness.core.engine import Searcher
from harness.shadow.log import LogContents
from harness.shadow.mcp import McpControl, McpProxy
from harness.shadow.settings import Backend, read_reading
from tests.make.shadow_log import comparison, drained, here
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


def called(folder: Path, answer: CallToolResult, tool: str) -> tuple[CallToolResult, LogContents]:
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
    assert one.control.served_by == Backend(READING, "mcp", "letters 7").manifest.fingerprint


def test_a_call_of_another_tool_reaches_the_control_alone(tmp_path: Path) -> None:
    answer = CallToolResult(content=[], structured_content=FOUND)
    found, read = called(tmp_path, answer, "delete_messages")
    assert found.structured_content == FOUND
    assert read.tally.attempted == 0
    assert not read.degradations


class Line:
    """A connection that can be cut, or cannot be made."""

    def __init__(self, number: int, *, refuses: bool = False) -> None:
        self.server_info = Implementation(name="letters", version=str(number))
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


def behind(lines: list[Line], use: Callable[[McpControl, TaskGroup], Any]) -> Any:  # noqa: ANN401
    waiting = iter(lines)

    async def run() -> Any:  # noqa: ANN401
        control = McpControl(lambda: cast("Client", next(waiting)), patience_s=5)
        async with anyio.create_task_group() as group:
            await group.start(control.run)
            found = await use(control, group)
            group.cancel_scope.cancel()
        return found

    return anyio.run(run)


@pytest.mark.parametrize(
    "cut",
    [MCPError(CONNECTION_CLOSED, "Connection closed"), anyio.BrokenResourceError()],
    ids=["told", "raised"],
)
def test_after_a_break_the_next_request_is_answered(cut: Exception) -> None:
    lines = [Line(1), Line(2, refuses=True), Line(3)]

    async def use(control: McpControl, _: TaskGroup) -> list[str]:
        said = [await control.send("a", str)]
        lines[0].cut = cut
        with pytest.raises(MCPError):
            await control.send("b", str)
        said.append(await control.send("c", str))
        assert control.server_info is not None
        return [*said, control.server_info.version]

    assert behind(lines, use) == ["a 1", "c 3", "3"]


def test_an_error_of_the_protocol_breaks_nothing() -> None:
    lines = [Line(1)]

    async def use(control: McpControl, _: TaskGroup) -> int:
        lines[0].cut = MCPError(-32602, "no such tool")
        with pytest.raises(MCPError, match="no such tool"):
            await control.send("a", str)
        lines[0].cut = None
        await control.send("b", str)
        return control.connections

    assert behind(lines, use) == 1
