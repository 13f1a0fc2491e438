"""The tools as an MCP server; structured answers with a schema, errors with a code."""

from __future__ import annotations

import json
from dataclasses import replace
from types import new_class
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent

from engines.stacks.agent_mail.mcp_tools.arguments import (
    Arguments,
    InProduct,
    InProject,
    resolved,
    signature,
)
from engines.stacks.agent_mail.mcp_tools.callers import CALLER
from engines.stacks.agent_mail.mcp_tools.refused import Refused
from engines.stacks.agent_mail.mcp_tools.results import SearchResult
from engines.stacks.agent_mail.mcp_tools.search import Surface
from engines.stacks.agent_mail.mcp_tools.switched import Switched

NAME = "agent-mail-search"
MESSAGES, PRODUCT = "search_messages", "search_messages_product"
Answered = Annotated[CallToolResult, SearchResult]
TOOLS: dict[str, tuple[type[Arguments], str]] = {
    MESSAGES: (InProject, "Search the messages of a project, or of every project with *."),
    PRODUCT: (InProduct, "Search the messages of all projects of a product."),
}


def application(surface: Surface | Switched) -> MCPServer[Any]:
    """Make a server of both tools; its version is the fingerprint of who answers at the start.

    A server that has viewers names no corpus in it, for all of them read it.
    """
    made = surface.identity.manifest
    if surface.scope is not None:
        made = replace(made, documents=0, corpus_sha256="")
    return MCPServer(
        NAME,
        title=surface.identity.arm,
        version=made.fingerprint,
        tools=[_tool(surface, name, kind, about) for name, (kind, about) in TOOLS.items()],
        log_level="WARNING",
    )


def _tool(surface: Surface | Switched, name: str, kind: type[Arguments], about: str) -> Tool:
    """Make a tool that refuses a parameter it does not know: a filter lost is a wrong answer."""

    def call(**given: Any) -> CallToolResult:  # noqa: ANN401  checked against the signature
        try:
            caller = CALLER.get(surface.scope)
            found = surface.seen_by(caller).search(resolved(kind, given))
        except Refused as exc:
            raise ToolError(str(exc)) from exc
        answer = found.written()
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=answer
        )

    call.__signature__ = signature(kind, Answered)  # type: ignore[attr-defined]
    tool = Tool.from_function(call, name=name, description=about)
    loose = tool.fn_metadata.arg_model
    strict: Any = new_class(name, (loose,), {"extra": "forbid"})
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool
