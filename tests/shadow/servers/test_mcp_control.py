"""The connection behind the MCP proxy: after a break the next request finds a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, Implementation

from harness.shadow.mcp import McpControl


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


def test_a_server_that_stays_away_is_said_to_be_and_not_waited_for_forever() -> None:
    lines = [Line(1), *(Line(n, refuses=True) for n in range(2, 99))]

    async def use(control: McpControl, _: TaskGroup) -> str:
        control._patience_s = 0.1  # noqa: SLF001  or the test would wait
        lines[0].cut = anyio.ClosedResourceError()
        for _again in range(2):
            with pytest.raises(MCPError) as seen:
                await control.send("a", str)
        return seen.value.message

    assert behind(lines, use) == "the server cannot be reached"


def test_a_first_connection_that_fails_is_raised() -> None:
    async def use(_: McpControl, __: TaskGroup) -> None: ...

    with pytest.raises(ExceptionGroup) as seen:
        behind([Line(1, refuses=True)], use)
    assert seen.group_contains(ConnectionRefusedError)
