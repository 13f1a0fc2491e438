"""A connection to an MCP server, held open by an event loop of its own; every wait is bounded."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from typing import Any, TextIO

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

from harness.core.errors import IndexNotReady, first_of


class ToolFailed(Exception):
    """The server answered that the call failed."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection; calls block."""

    portal: BlockingPortal
    client: Client
    timeout_s: float
    server: str
    """Name and version that the server gave of itself; empty where it gave none."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a tool and give the structured content of its answer.

        Raises:
            ToolFailed: the tool says that it failed, or gives nothing structured.
            TimeoutError: no answer came in time.
            MCPError: the connection is lost, or the server does not keep the protocol.
            UnicodeEncodeError: half a surrogate pair cannot be sent; it would end the connection.
        """
        json.dumps(arguments, ensure_ascii=False).encode()
        return self.portal.call(self._call, tool, arguments)

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call without the SDK's check of the whole answer against the tool's schema.

        That takes several times as long as the call; ``page.read`` checks what is read.
        """
        params = CallToolRequestParams(name=tool, arguments=dict(arguments))
        with anyio.fail_after(self.timeout_s):
            found = await self.client.session.send_request(
                CallToolRequest(params=params), CallToolResult
            )
        if found.is_error:
            said = "; ".join(getattr(part, "text", part.type) for part in found.content)
            raise ToolFailed(said or f"{tool} failed and does not say why")
        if not isinstance(found.structured_content, dict):
            raise ToolFailed(f"{tool} gave no structured content")
        return found.structured_content


@contextmanager
def connected(command: Sequence[str], url: str, timeout_s: float) -> Iterator[Connection]:
    """Start ``command`` and speak to it over its pipes, or speak to ``url`` where that is given.

    What fails while connected is passed on as it is: the event loop would make a group of it.

    Raises:
        IndexNotReady: the server does not answer, or not in time.
    """
    where = url or " ".join(command)
    with ExitStack() as stack:
        log = _log(stack)
        portal = stack.enter_context(start_blocking_portal())
        opened = portal.wrap_async_context_manager(_opened(command, url, timeout_s, log))
        try:
            client = opened.__enter__()
        except Exception as exc:
            first = first_of(exc)
            raise IndexNotReady(
                f"{where}: no MCP server answers ({type(first).__name__}: {first})."
                " Start it, or correct the arm"
            ) from exc
        stack.callback(_close, opened)
        about = client.server_info
        server = f"{about.name} {about.version}" if about else ""
        yield Connection(portal, client, timeout_s, server)


def _close(opened: AbstractContextManager[Client]) -> None:
    """Close; a connection that was lost says so again here, when each query has told already."""
    with suppress(Exception):
        opened.__exit__(None, None, None)


@asynccontextmanager
async def _opened(
    command: Sequence[str], url: str, timeout_s: float, log: TextIO
) -> AsyncIterator[Client]:
    deadline = anyio.current_time() + timeout_s
    with anyio.CancelScope(deadline=deadline) as scope:
        started = url or stdio_client(
            StdioServerParameters(command=command[0], args=list(command[1:])), errlog=log
        )
        async with Client(started, read_timeout_seconds=timeout_s, cache=None) as client:
            scope.deadline = math.inf
            try:
                yield client
            finally:
                scope.deadline = anyio.current_time() + timeout_s
    if scope.cancelled_caught:
        raise TimeoutError(f"not within {timeout_s:g} s")


def _log(stack: ExitStack) -> TextIO:
    """Give the real error stream for a server to log to; a test may have put another in place."""
    if sys.__stderr__ is not None:
        return sys.__stderr__
    return stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123  not a path
