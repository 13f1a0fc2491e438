"""A proxy before an MCP server: clients see its tools and answers, and a candidate their calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
)

from harness.core.serving.listening import CONNECTIONS, bound, server
from harness.core.serving.pipes import pipes
from harness.shadow.live.comparison import Comparison
from harness.shadow.live.pair import Served
from harness.shadow.live.side import told
from harness.shadow.servers.backend import Backend
from harness.shadow.servers.mcp_control import McpControl
from harness.shadow.servers.reading import Reading, Unreadable

KIND, PATH = "mcp", "/mcp"
PASSED_ON_BYTES = 16 << 20
"""Of a message over pipes; the longest that is compared is set beside."""
Context = ServerRequestContext[Any]


@dataclass(frozen=True, slots=True)
class McpProxy:
    """Passes calls on to one server, and offers those that are queries."""

    control: McpControl
    reading: Reading
    comparison: Comparison
    later: TaskGroup
    """What a client need not wait for."""
    backend: Backend = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", Backend(self.reading, KIND, named(self.control)))

    async def tools(self, _: Context, asked: PaginatedRequestParams | None) -> ListToolsResult:
        """List the control's tools."""
        return await self.control.send(ListToolsRequest(params=asked), ListToolsResult)

    async def call(self, _: Context, asked: CallToolRequestParams) -> CallToolResult:
        """Answer as the control does; an error of the protocol is passed on too."""
        call = CallToolRequestParams(name=asked.name, arguments=asked.arguments)
        answer, error = None, ""
        start = perf_counter_ns()
        try:
            answer = await self.control.send(CallToolRequest(params=call), CallToolResult)
        except MCPError as exc:
            error = told(exc)
            raise
        finally:
            offer = partial(self._offer, call, answer, error, perf_counter_ns() - start)
            self.later.start_soon(anyio.to_thread.run_sync, offer)
        return answer

    def _offer(
        self,
        call: CallToolRequestParams,
        call_tool_result: CallToolResult | None,
        error: str,
        elapsed_ns: int,
    ) -> None:
        """Offer a call and its answer, on a thread; one that cannot be read is a fault."""
        if call.name not in self.reading.request.compared:
            return
        try:
            text, k = self.reading.asked(call.arguments or {})
            arguments = json.dumps(call.arguments, sort_keys=True, ensure_ascii=False)
        except Exception as exc:  # noqa: BLE001  the client has its answer; the log is told
            self.comparison.fault(exc)
            return
        answer, generation = None, self.backend.now()
        try:
            if call_tool_result is not None:
                answer, generation = self.backend.read(structured(call_tool_result), k)
        except Exception as exc:  # noqa: BLE001  an answer that cannot be read is one that failed
            error = told(exc)
        params = {"tool": call.name, "arguments": arguments}
        error = error or _unknown(call_tool_result)
        served = Served(text, k, params, answer, error, elapsed_ns, generation)
        self.comparison.offer(served, self.backend.now)

    def app(self) -> Server[Any]:
        """Make a server that says of itself what the control says."""
        about = self.control.server_info
        return Server(
            about.name if about else KIND,
            version=about.version if about else "",
            title=about.title if about else None,
            instructions=self.control.instructions,
            on_list_tools=self.tools,
            on_call_tool=self.call,
        )


def named(control: McpControl) -> str:
    """Name and version that a server gives of itself."""
    about = control.server_info
    return f"{about.name} {about.version}" if about else ""


async def serve(
    control: McpControl,
    reading: Reading,
    comparison: Comparison,
    http: tuple[str, int] | None,
    ready: Callable[[str], object],
) -> None:
    """Serve over the pipes of this process until they end, or over HTTP until interrupted.

    Raises:
        HarnessError: the host is not an address in numbers, or the port is taken.
    """
    async with anyio.create_task_group() as later:
        app = McpProxy(control, reading, comparison, later).app()
        if http is None:
            async with pipes(PASSED_ON_BYTES) as (reads, writes):
                await app.run(reads, writes, app.create_initialization_options())
            return
        host, port = http
        over_http = app.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=reading.bounds.request_bytes,
            host=host,
        )
        with bound(host, port) as (opened, url):
            ready(f"{url}{PATH}")
            await server(over_http, CONNECTIONS).serve(sockets=[opened])


def structured(answer: CallToolResult) -> dict[str, Any]:
    """Return the structured content of an answer.

    Raises:
        Unreadable: the tool failed, or there is none.
    """
    if answer.is_error:
        said = "; ".join(getattr(part, "text", part.type) for part in answer.content)
        raise Unreadable(f"the tool failed: {said}")
    if not isinstance(answer.structured_content, dict):
        raise Unreadable("structured content is missing")
    return answer.structured_content


def _unknown(call_tool_result: CallToolResult | None) -> str:
    return "" if call_tool_result is not None else "it ended without an answer"
